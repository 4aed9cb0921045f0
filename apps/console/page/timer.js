// Work that is repeated while a view is shown.

/** Does `work` now, and again `period` ms after it is done; returns a function that ends it. */
export function repeat(period, work) {
  let timer = null;
  let ended = false;
  const run = async () => {
    await work();
    if (!ended) timer = setTimeout(run, period);
  };
  timer = setTimeout(run, 0);
  return () => { ended = true; clearTimeout(timer); };
}
