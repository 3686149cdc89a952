//! `emit`: files of the workspace that go out with the result.
//!
//! The checks here give the program a clear error; the host itself checks the files at the end.
use std::{
    fs, io,
    path::{Path, PathBuf},
    rc::Rc,
};

use ringfence_wire::{EmittedFile, InvalidMessage, MAX_EMITTED_FILES};
use rquickjs::{Ctx, Exception, Function, Object, Result};

use super::host::NativeState;
use super::workspace::{self, decode_base64, io_reason, workspace_path};
use crate::emit::media_type;

/// The most characters of a name in an error message.
const MAX_SHOWN_CHARS: usize = 200;
/// The most bytes of a path, as in the kernel.
const MAX_PATH_BYTES: usize = 4096;

/// What is at a path, links not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathKind {
    Missing,
    File,
    Folder,
    Link,
    Other,
}

/// Adds `emit` and its variants to the prelude's native functions.
pub(super) fn define_emit<'js>(ctx: &Ctx<'js>, native: &Object<'js>, host: &Rc<NativeState>) -> Result<()> {
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
        let bytes = decode_base64(&ctx, &base64)?;
        emit(&ctx, &root, (&path, kind), Some(&bytes))
    };
    native.set("emitBytes", Function::new(ctx.clone(), bytes)?)?;
    let root = bind();
    native.set(
        "isFile",
        Function::new(ctx.clone(), move |text: String| is_file(&root.workspace, &text))?,
    )
}

fn emit(ctx: &Ctx<'_>, host: &NativeState, (path, kind): (&str, Option<String>), data: Option<&[u8]>) -> Result<()> {
    let fail = |what: &str, why: &str| {
        let what: String = what.escape_debug().take(MAX_SHOWN_CHARS).collect();
        Exception::throw_message(ctx, &format!("emit: `{what}`: {why}"))
    };
    if host.has_diverged() {
        return Err(fail(path, "the program does not repeat itself"));
    }
    let inner = workspace_path(path).ok_or_else(|| fail(path, "it is not below /workspace"))?;
    let name = inner.to_str().unwrap_or_default();
    let kind = kind.map_or_else(|| media_type(name).to_owned(), |kind| kind.to_ascii_lowercase());
    let emit = EmittedFile::new(name, &kind).map_err(|unfit| {
        if unfit == InvalidMessage::MediaType {
            return fail(&kind, "it is no media type such as `text/csv`, without parameters");
        }
        fail(path, "it is no plain name of a file")
    })?;
    match (path_kind(&host.workspace, &inner), data) {
        (Ok(PathKind::File), _) | (Ok(PathKind::Missing), Some(_)) => {}
        (Ok(PathKind::Missing), None) => return Err(fail(path, "there is no such file")),
        (Ok(PathKind::Folder), _) => return Err(fail(path, "it is a folder: only files go out")),
        (Ok(PathKind::Link), _) => return Err(fail(path, "it is a link, or behind one: only plain files go out")),
        (Ok(PathKind::Other), _) => return Err(fail(path, "it is no plain file")),
        (Err(error), _) => return Err(fail(path, &io_reason(&error))),
    }
    if !host.emitted.borrow().accepts(&emit) {
        return Err(fail(
            path,
            &format!("{MAX_EMITTED_FILES} files go out already, which is the most"),
        ));
    }
    if let Some(bytes) = data {
        workspace::write_with_folders(&host.workspace.join(&inner), bytes)
            .map_err(|error| fail(path, &io_reason(&error)))?;
    }
    if host.emitted.borrow_mut().add(&emit)
        && let Some(outside) = host.engine_host()
    {
        outside.borrow_mut().emit(emit);
    }
    Ok(())
}

/// Whether a text is the path of a plain file in the workspace.
fn is_file(root: &Path, text: &str) -> bool {
    let path = workspace_path(text).filter(|_| text.len() <= MAX_PATH_BYTES);
    path.is_some_and(|inner| matches!(path_kind(root, &inner), Ok(PathKind::File)))
}

/// Finds out what is at a path below `root`, and follows no link.
fn path_kind(root: &Path, inner: &Path) -> io::Result<PathKind> {
    let mut place = PathBuf::from(root);
    let mut there = PathKind::Folder;
    for name in inner {
        place.push(name);
        let found = match fs::symlink_metadata(&place) {
            Ok(found) => found.file_type(),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(PathKind::Missing);
            }
            Err(error) => return Err(error),
        };
        there = match found {
            found if found.is_symlink() => return Ok(PathKind::Link),
            found if found.is_dir() => PathKind::Folder,
            found if found.is_file() => PathKind::File,
            _ => PathKind::Other,
        };
    }
    Ok(there)
}
