// Elements. Texts of the node become text, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes (functions are listeners) and children: elements or texts. */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function s(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Sets the text of an element if it is another one; unchanged pages cost no layout. */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Keeps one child of `parent` for each row, in their order: `make(row)` makes it, `update(child, row)` follows. */
export function keyed(parent, rows, key, make, update) {
  const old = parent.keyedChildren ?? new Map();
  const now = new Map();
  let place = parent.firstChild;
  for (const row of rows) {
    const name = key(row);
    if (now.has(name)) continue;
    const child = old.get(name) ?? make(row);
    now.set(name, child);
    const element = child.element ?? child;
    if (element === place) place = place.nextSibling;
    else parent.insertBefore(element, place);
    update(child, row);
  }
  for (const [name, child] of old) {
    if (now.has(name)) continue;
    child.drop?.();
    (child.element ?? child).remove();
  }
  parent.keyedChildren = now;
}

/** A table with a caption; columns are { title, text(row), kind: "number" | "text", cell(td, row) }. `none` shows `empty` while there is no row. */
export function table(caption, columns, empty) {
  const body = h("tbody");
  const none = h("p", { class: "empty" }, empty);
  const whole = h("div", { class: "scroll" },
    h("table", {}, h("caption", {}, caption),
      h("thead", {}, h("tr", {}, columns.map((column) =>
        h("th", { scope: "col", class: column.kind ?? false }, column.title)))), body), none);
  const update = (rows, key) => {
    none.hidden = rows.length > 0;
    keyed(body, rows, key,
      () => h("tr", {}, columns.map((column) => h("td", { class: column.kind ?? false }))),
      (line, row) => columns.forEach((column, index) => {
        const cell = line.children[index];
        if (column.cell) column.cell(cell, row);
        else put(cell, column.text(row) ?? "–");
      }));
  };
  return { element: whole, body, none, update };
}

/** Shows a form in a dialog. `act(values)` resolves to nothing, which closes it, or to lines that say why not, which are shown in it. */
export function filled(question, fields, act) {
  const inputs = fields.map((field) => h("input", { name: field.name, value: field.value ?? "", placeholder: field.hint ?? false, autocomplete: "off", spellcheck: "false" }));
  const result = h("div", { class: "bad", role: "alert" });
  const dialog = h("dialog", { close: () => dialog.remove() },
    h("form", {
      submit: async (event) => {
        event.preventDefault();
        const lines = await act(Object.fromEntries(inputs.map((input) => [input.name, input.value.trim()])));
        if (lines) result.replaceChildren(...lines.map((line) => h("p", {}, line)));
        else dialog.close();
      },
    },
    h("p", {}, question), fields.map((field, index) => h("label", {}, field.title, inputs[index])), result,
    h("div", { class: "row" }, h("button", {}, "Do it"), h("button", { type: "button", click: () => dialog.close() }, "Cancel"))));
  document.body.append(dialog);
  dialog.showModal();
}

/** Asks the user; resolves to true if they agree. */
export function confirmed(question, detail) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { close: () => { resolve(dialog.returnValue === "yes"); dialog.remove(); } },
      h("form", { method: "dialog" },
        h("p", {}, question), detail ? h("pre", {}, detail) : null,
        h("div", { class: "row" },
          h("button", { value: "yes" }, "Do it"), h("button", { value: "no", autofocus: true }, "Cancel"))));
    document.body.append(dialog);
    dialog.showModal();
  });
}
