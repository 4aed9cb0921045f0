//! The example for application programmers in Python, as `docs/local.md` has it.

use std::{fs, process::Stdio};

use tokio::process::Command;

use super::{Pair, echo};

#[tokio::test]
async fn the_example_in_python_works_as_documented() {
    let text = include_str!("../../../../../docs/local.md");
    let example = text.split("```python\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let is_there = Command::new("python3").arg("--version").output().await;
    if is_there.is_err() {
        eprintln!("skipped: there is no python3");
        return;
    }
    let pair = Pair::start().await;
    pair.run(async {
        let far = pair.far.attach().await;
        let echoing = tokio::spawn(echo(far.register("echo").await.unwrap()));
        // The session is there, so that the example needs no addresses.
        let near = pair.near.attach().await;
        let _session = pair.session(&near).await;
        let script = pair.near.folder.join("example.py");
        fs::write(&script, example).unwrap();
        let output = Command::new("python3")
            .arg(&script)
            .arg("other")
            .env("ANABRANCH_LOCAL", pair.near.socket())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "0 b'hello'\n");
        echoing.abort();
    })
    .await;
}
