//! `emit`: files of the workspace that go out with the result.
//!
//! The checks here give the program a clear error; the host itself checks the files at the end.
use std::{
    fs, io,
    path::{Path, PathBuf},
    rc::Rc,
};

use ringfence_wire::{EMITS_MAX, Emit, Unfit};
use rquickjs::{Ctx, Exception, Function, Object, Result};

use super::host::Host;
use super::workspace::{self, inside, reason, unpack};
use crate::emit::media_type;

/// The most characters of a name in an error message.
const MOST_SHOWN: usize = 200;
/// The most bytes of a path, as in the kernel.
const LONGEST_PATH: usize = 4096;

/// What is at a path, links not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum There {
    Nothing,
    File,
    Folder,
    Link,
    Other,
}

/// Adds `emit` and its variants to the prelude's native functions.
pub(super) fn define<'js>(ctx: &Ctx<'js>, native: &Object<'js>, host: &Rc<Host>) -> Result<()> {
    let bind = || Rc::clone(host);
    let root = bind();
    let file = move |ctx: Ctx<'_>, path: String, kind: Option<String>| emit(&ctx, &root, (&path, kind), None);
    native.set("emit", Function::new(ctx.clone(), file)?)?;
    let root = bind();
    let text = move |ctx: Ctx<'_>, path: String, text: String, kind: Option<String>| {
        emit(&ctx, &root, (&path, kind), Some(text.as_bytes()))
    };
    native.set("emitText", Function::new(ctx.clone(), text)?)?;
    let root = bind();
    let bytes = move |ctx: Ctx<'_>, path: String, base64: String, kind: Option<String>| {
        let bytes = unpack(&ctx, &base64)?;
        emit(&ctx, &root, (&path, kind), Some(&bytes))
    };
    native.set("emitBytes", Function::new(ctx.clone(), bytes)?)?;
    let root = bind();
    native.set(
        "isFile",
        Function::new(ctx.clone(), move |text: String| is_file(&root.workspace, &text))?,
    )
}

fn emit(ctx: &Ctx<'_>, host: &Host, (path, kind): (&str, Option<String>), data: Option<&[u8]>) -> Result<()> {
    let fail = |what: &str, why: &str| {
        let what: String = what.escape_debug().take(MOST_SHOWN).collect();
        Exception::throw_message(ctx, &format!("emit: `{what}`: {why}"))
    };
    if host.has_diverged() {
        return Err(fail(path, "the program does not repeat itself"));
    }
    let inner = inside(path).ok_or_else(|| fail(path, "it is not below /workspace"))?;
    let name = inner.to_str().unwrap_or_default();
    let kind = kind.map_or_else(|| media_type(name).to_owned(), |kind| kind.to_ascii_lowercase());
    let emit = Emit::new(name, &kind).map_err(|unfit| {
        if unfit == Unfit::MediaType {
            return fail(&kind, "it is no media type such as `text/csv`, without parameters");
        }
        fail(path, "it is no plain name of a file")
    })?;
    match (look(&host.workspace, &inner), data) {
        (Ok(There::File), _) | (Ok(There::Nothing), Some(_)) => {}
        (Ok(There::Nothing), None) => return Err(fail(path, "there is no such file")),
        (Ok(There::Folder), _) => return Err(fail(path, "it is a folder: only files go out")),
        (Ok(There::Link), _) => return Err(fail(path, "it is a link, or behind one: only plain files go out")),
        (Ok(There::Other), _) => return Err(fail(path, "it is no plain file")),
        (Err(error), _) => return Err(fail(path, &reason(&error))),
    }
    if !host.emitted.borrow().takes(&emit) {
        return Err(fail(
            path,
            &format!("{EMITS_MAX} files go out already, which is the most"),
        ));
    }
    if let Some(bytes) = data {
        workspace::write(&host.workspace.join(&inner), bytes).map_err(|error| fail(path, &reason(&error)))?;
    }
    if host.emitted.borrow_mut().note(&emit)
        && let Some(outside) = host.outside()
    {
        outside.borrow_mut().emit(emit);
    }
    Ok(())
}

/// Whether a text is the path of a plain file in the workspace.
fn is_file(root: &Path, text: &str) -> bool {
    let path = inside(text).filter(|_| text.len() <= LONGEST_PATH);
    path.is_some_and(|inner| matches!(look(root, &inner), Ok(There::File)))
}

/// Finds out what is at a path below `root`, and follows no link.
fn look(root: &Path, inner: &Path) -> io::Result<There> {
    let mut place = PathBuf::from(root);
    let mut there = There::Folder;
    for name in inner {
        place.push(name);
        let found = match fs::symlink_metadata(&place) {
            Ok(found) => found.file_type(),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(There::Nothing);
            }
            Err(error) => return Err(error),
        };
        there = match found {
            found if found.is_symlink() => return Ok(There::Link),
            found if found.is_dir() => There::Folder,
            found if found.is_file() => There::File,
            _ => There::Other,
        };
    }
    Ok(there)
}
