//! A headless Chromium, driven over its debugging pipe (Chrome DevTools Protocol).

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::harness::Killed;

/// Limit of a wait for the page.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Browser {
    commands: File,
    answers: BufReader<File>,
    page: String,
    number: u64,
    /// Errors of scripts, and messages that a person would see in the browser's console.
    pub(crate) problems: Vec<String>,
    _program: Killed,
    _folder: tempfile::TempDir,
}

impl Browser {
    /// Starts it; `None` where there is none.
    pub(crate) fn start() -> Option<Self> {
        let version = Command::new("chromium")
            .arg("--version")
            .stderr(Stdio::null())
            .output();
        if !version.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: there is no chromium");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let pipe = |name: &str| folder.path().join(name);
        for name in ["commands", "answers"] {
            assert!(
                Command::new("mkfifo")
                    .arg(pipe(name))
                    .status()
                    .unwrap()
                    .success()
            );
        }
        // The shell gives the program its descriptors 3 and 4; each end of a pipe waits for the other.
        let program = Command::new("sh")
            .args(["-c", "exec chromium \"$@\" 3<commands 4>answers", "sh"])
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                // WebGL without a graphics card.
                "--enable-unsafe-swiftshader",
                "--no-first-run",
                // A microphone that beeps, and sound without a person who begins it.
                "--use-fake-device-for-media-stream",
                "--use-fake-ui-for-media-stream",
                "--autoplay-policy=no-user-gesture-required",
            ])
            .args([
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", pipe("profile").display()))
            .arg("about:blank")
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let commands = OpenOptions::new()
            .write(true)
            .open(pipe("commands"))
            .unwrap();
        let answers = BufReader::new(File::open(pipe("answers")).unwrap());
        let mut own = Self {
            commands,
            answers,
            page: String::new(),
            number: 0,
            problems: Vec::new(),
            _program: Killed(program),
            _folder: folder,
        };
        let targets = own.call("Target.getTargets", &json!({}));
        let mut pages = targets["targetInfos"].as_array().unwrap().iter();
        let page = pages.find(|target| target["type"] == "page").unwrap();
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        own.page = own.call("Target.attachToTarget", &attach)["sessionId"]
            .as_str()
            .unwrap()
            .to_owned();
        for domain in ["Page", "Runtime", "Log", "Performance"] {
            own.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(own)
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let answer = self.ask(method, parameters);
        assert_eq!(answer["error"], Value::Null, "{method}: {answer}");
        answer["result"].clone()
    }

    /// The whole answer, an error included.
    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if !self.page.is_empty() {
            message["sessionId"] = json!(self.page);
        }
        self.commands
            .write_all(format!("{message}\0").as_bytes())
            .unwrap();
        loop {
            let mut bytes = Vec::new();
            self.answers.read_until(0, &mut bytes).unwrap();
            bytes.pop();
            let answer: Value = serde_json::from_slice(&bytes).expect("the browser ended");
            if answer["id"] == self.number {
                return answer;
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let method = event["method"].as_str().unwrap_or_default();
        let is_loud = method == "Runtime.consoleAPICalled" && event["params"]["type"] == "error";
        if is_loud || matches!(method, "Runtime.exceptionThrown" | "Log.entryAdded") {
            self.problems.push(event["params"].to_string());
        }
    }

    pub(crate) fn open(&mut self, link: &str) {
        self.call("Page.navigate", &json!({ "url": link }));
    }

    /// Signs out of everything.
    pub(crate) fn forget(&mut self) {
        self.call("Network.clearBrowserCookies", &json!({}));
    }

    pub(crate) fn size(&mut self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Runs a script in every page before its own.
    pub(crate) fn before_pages(&mut self, script: &str) {
        let source = json!({ "source": script });
        self.call("Page.addScriptToEvaluateOnNewDocument", &source);
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let end = Instant::now() + LIMIT;
        let result = loop {
            let answer = self.ask("Runtime.evaluate", &asked);
            if answer["error"] == Value::Null {
                break answer["result"].clone();
            }
            // The page is being replaced by the one that was asked for; the next one is asked.
            let text = answer["error"]["message"].as_str().unwrap_or_default();
            let is_leaving = ["navigated", "context"]
                .iter()
                .any(|word| text.contains(word));
            assert!(is_leaving && Instant::now() < end, "{expression}: {answer}");
            std::thread::sleep(Duration::from_millis(100));
        };
        assert_eq!(
            result["exceptionDetails"],
            Value::Null,
            "{expression}: {result}"
        );
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, expression: &str) {
        let end = Instant::now() + LIMIT;
        while self.value(expression) != true {
            let text = "document.body ? document.body.innerText : ''";
            assert!(
                Instant::now() < end,
                "never: {expression}; the page: {}",
                self.value(text)
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until the page shows a text.
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait(&format!(
            "document.body?.innerText.includes({}) === true",
            json!(text)
        ));
    }

    /// Presses a key, as a person does.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "ArrowRight" => 39,
            other => panic!("{other}"),
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Processor time of the page's scripts, layout and the rest of its tasks, in seconds.
    pub(crate) fn task_seconds(&mut self) -> f64 {
        let metrics = self.call("Performance.getMetrics", &json!({}));
        let mut metrics = metrics["metrics"].as_array().unwrap().iter();
        let found = metrics.find(|metric| metric["name"] == "TaskDuration");
        found.unwrap()["value"].as_f64().unwrap()
    }

    pub(crate) fn picture(&mut self, path: &Path) {
        let shot = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        let bytes = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}
