//! The commands of `anabranch video` as processes.

mod http;
mod tickets;

/// A process that ends when the test does.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
