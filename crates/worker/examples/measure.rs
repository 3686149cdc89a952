#![allow(clippy::all, missing_docs)]
use ringfence_worker::js::*;
use std::{cell::RefCell, io::Read, rc::Rc, time::Instant};
struct O;
impl Output for O {
    fn stdout(&mut self, b: &[u8]) {
        use std::io::Write;
        std::io::stdout().write_all(b).unwrap();
    }
    fn stderr(&mut self, b: &[u8]) {
        use std::io::Write;
        std::io::stderr().write_all(b).unwrap();
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a.len() > 1 && a[1] == "idle" {
        let e = Engine::new(EngineLimits {
            memory: None,
            stack: 4 << 20,
        })
        .unwrap();
        println!("{}", std::fs::read_to_string("/proc/self/smaps_rollup").unwrap());
        e.warm_up().unwrap();
        println!("{}", std::fs::read_to_string("/proc/self/smaps_rollup").unwrap());
        let t = Instant::now();
        let f = e.run(
            &Program {
                source: "const rows: {a: number}[] = [{a:1}]; console.log(rows); rows",
                typescript: true,
                file_name: "program.ts",
                args: &[],
            },
            Rc::new(RefCell::new(O)),
        );
        println!("{f:?} {:?}", t.elapsed());
        return;
    }
    if a.len() > 1 {
        let mut src = String::new();
        std::io::stdin().read_to_string(&mut src).unwrap();
        let e = Engine::with_workspace(
            EngineLimits {
                memory: Some(1 << 30),
                stack: 1 << 20,
            },
            std::env::current_dir().unwrap(),
        )
        .unwrap();
        let t = Instant::now();
        let f = e.run(
            &Program {
                source: &src,
                typescript: true,
                file_name: "program.ts",
                args: &a[2..],
            },
            Rc::new(RefCell::new(O)),
        );
        let s = format!("{:?}", f.outcome);
        println!("{} {:?}", &s[..s.len().min(2000)], t.elapsed());
        return;
    }
    for src in [
        "[1,2,3].map((n: number) => n * 2).reduce((a, b) => a + b)",
        "const rows: {a: number}[] = [{a:1}]; console.log(rows); rows",
        "throw new Error('x')",
    ] {
        let mut news = vec![];
        let mut runs = vec![];
        for _ in 0..200 {
            let t = Instant::now();
            let e = Engine::new(EngineLimits {
                memory: Some(256 << 20),
                stack: 1 << 20,
            })
            .unwrap();
            news.push(t.elapsed());
            let t = Instant::now();
            struct N;
            impl Output for N {
                fn stdout(&mut self, _: &[u8]) {}
                fn stderr(&mut self, _: &[u8]) {}
            }
            let f = e.run(
                &Program {
                    source: src,
                    typescript: true,
                    file_name: "program.ts",
                    args: &[],
                },
                Rc::new(RefCell::new(N)),
            );
            runs.push(t.elapsed());
            drop(f);
        }
        println!("first new {:?} run {:?}", news[0], runs[0]);
        news.sort();
        runs.sort();
        println!(
            "new min {:?} med {:?}; run min {:?} med {:?}",
            news[0], news[100], runs[0], runs[100]
        );
    }
    println!(
        "{}",
        std::fs::read_to_string("/proc/self/smaps_rollup")
            .unwrap()
            .lines()
            .filter(|l| l.starts_with("Pss:") || l.starts_with("Private_Dirty"))
            .collect::<Vec<_>>()
            .join(" ")
    );
}
#[allow(dead_code)]
pub fn parts() {
    let mut a = vec![];
    let mut b = vec![];
    for _ in 0..200 {
        let t = Instant::now();
        let r = rquickjs::Runtime::new().unwrap();
        a.push(t.elapsed());
        let t = Instant::now();
        let c = rquickjs::Context::full(&r).unwrap();
        b.push(t.elapsed());
        std::mem::forget(c);
        std::mem::forget(r);
    }
    a.sort();
    b.sort();
    println!("runtime {:?} {:?} context {:?} {:?}", a[0], a[100], b[0], b[100]);
}
pub fn parts2() {
    for name in ["core", "inspect", "value", "console", "web", "files"] {
        let src = std::fs::read_to_string(format!("/work/main/crates/worker/src/js/prelude/{name}.js")).unwrap();
        let mut a = vec![];
        let mut b = vec![];
        for _ in 0..100 {
            let r = rquickjs::Runtime::new().unwrap();
            let c = rquickjs::Context::full(&r).unwrap();
            c.with(|ctx| {
                let t = Instant::now();
                let m = rquickjs::Module::declare(ctx.clone(), "x", src.clone()).unwrap();
                a.push(t.elapsed());
                let t = Instant::now();
                let (m, _) = m.eval().unwrap();
                let f: rquickjs::Function = m.namespace().unwrap().get("default").unwrap();
                b.push(t.elapsed());
                std::mem::forget(f);
                std::mem::forget(m);
            });
            std::mem::forget(c);
            std::mem::forget(r);
        }
        a.sort();
        b.sort();
        println!(
            "{name} {} compile {:?} {:?} eval {:?} {:?}",
            src.len(),
            a[0],
            a[50],
            b[0],
            b[50]
        );
    }
    let mut a = vec![];
    for _ in 0..100 {
        let r = rquickjs::Runtime::new().unwrap();
        let c = rquickjs::Context::full(&r).unwrap();
        c.with(|ctx| {
            let t = Instant::now();
            let o = rquickjs::Object::new(ctx.clone()).unwrap();
            for i in 0..14 {
                o.set(
                    format!("n{i}"),
                    rquickjs::Function::new(ctx.clone(), move |a: i32| a + i).unwrap(),
                )
                .unwrap();
            }
            a.push(t.elapsed());
            std::mem::forget(o);
        });
        std::mem::forget(c);
        std::mem::forget(r);
    }
    a.sort();
    println!("14 natives {:?} {:?}", a[0], a[50]);
}
