//! `files`: reads and writes below the workspace folder.
//!
//! The path checks give a clear error for mistakes; the jail is what contains a hostile program.
use std::{
    fs, io,
    path::{Component, Path, PathBuf},
    rc::Rc,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rquickjs::{Ctx, Exception, Function, Object, Result, TypedArray};

use super::host::NativeState;

/// The workspace folder's name inside the sandbox.
const WORKSPACE_PATH: &str = "/workspace";

/// Adds the file functions to the prelude's native functions.
pub(super) fn define_files<'js>(ctx: &Ctx<'js>, native: &Object<'js>, host: &Rc<NativeState>) -> Result<()> {
    let bind = || Rc::clone(host);
    let root = bind();
    native.set(
        "read",
        Function::new(ctx.clone(), move |ctx: Ctx<'_>, path: String| read(&ctx, &root, &path))?,
    )?;
    let root = bind();
    native.set(
        "readLatin1",
        Function::new(ctx.clone(), move |ctx: Ctx<'_>, path: String| {
            read_latin1(&ctx, &root, &path)
        })?,
    )?;
    let root = bind();
    native.set(
        "readBytes",
        native_function(ctx, move |ctx, path| {
            TypedArray::new(ctx.clone(), read_bytes(&ctx, &root, &path)?)
        })?,
    )?;
    let root = bind();
    native.set(
        "write",
        Function::new(ctx.clone(), move |ctx, path: String, text: String| {
            write_bytes(&ctx, &root, &path, text.as_bytes())
        })?,
    )?;
    let root = bind();
    native.set(
        "writeBytes",
        Function::new(ctx.clone(), move |ctx: Ctx<'_>, path: String, base64: String| {
            let bytes = decode_base64(&ctx, &base64)?;
            write_bytes(&ctx, &root, &path, &bytes)
        })?,
    )?;
    let root = bind();
    native.set(
        "list",
        Function::new(ctx.clone(), move |ctx: Ctx<'_>, path: String| {
            list_names(&ctx, &root, &path)
        })?,
    )
}

/// Gives a closure that returns an engine value the lifetimes it needs.
fn native_function<'js, F>(ctx: &Ctx<'js>, body: F) -> Result<Function<'js>>
where
    F: for<'a> Fn(Ctx<'a>, String) -> Result<TypedArray<'a, u8>> + 'static,
{
    Function::new(ctx.clone(), body)
}

/// Decodes text from base64. Invalid UTF-8 is replaced, or refused if `fatal`.
#[expect(clippy::needless_pass_by_value, reason = "the engine hands natives owned values")]
pub(super) fn decode_text(ctx: Ctx<'_>, base64: String, fatal: bool) -> Result<String> {
    let bytes = decode_base64(&ctx, &base64)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(wrong) if !fatal => Ok(String::from_utf8_lossy(wrong.as_bytes()).into_owned()),
        Err(_) => Err(Exception::throw_type(&ctx, "the bytes are not valid utf-8")),
    }
}

pub(super) fn decode_base64(ctx: &Ctx<'_>, base64: &str) -> Result<Vec<u8>> {
    BASE64_STANDARD
        .decode(base64)
        .map_err(|_| Exception::throw_message(ctx, "the bytes could not be handed over"))
}

fn read(ctx: &Ctx<'_>, host: &NativeState, path: &str) -> Result<String> {
    let bytes = read_bytes(ctx, host, path)?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(wrong) => String::from_utf8_lossy(wrong.as_bytes()).into_owned(),
    })
}

fn read_latin1(ctx: &Ctx<'_>, host: &NativeState, path: &str) -> Result<String> {
    Ok(read_bytes(ctx, host, path)?.into_iter().map(char::from).collect())
}

fn read_bytes(ctx: &Ctx<'_>, host: &NativeState, path: &str) -> Result<Vec<u8>> {
    let place = resolve_path(ctx, host, path)?;
    fs::read(&place).map_err(|error| throw_io_error(ctx, "read", path, &error))
}

fn write_bytes(ctx: &Ctx<'_>, host: &NativeState, path: &str, bytes: &[u8]) -> Result<()> {
    if host.has_diverged() {
        return Err(Exception::throw_message(
            ctx,
            "files.write: the program does not repeat itself",
        ));
    }
    let place = resolve_path(ctx, host, path)?;
    write_with_folders(&place, bytes).map_err(|error| throw_io_error(ctx, "write", path, &error))
}

/// Writes a file, and makes the folders above it.
pub(super) fn write_with_folders(place: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(place, bytes)
}

fn list_names(ctx: &Ctx<'_>, host: &NativeState, path: &str) -> Result<Vec<String>> {
    let place = resolve_path(ctx, host, path)?;
    let entries = || -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&place)? {
            let entry = entry?;
            let mut name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() {
                name.push('/');
            }
            names.push(name);
        }
        names.sort();
        Ok(names)
    };
    entries().map_err(|error| throw_io_error(ctx, "list", path, &error))
}

fn throw_io_error(ctx: &Ctx<'_>, act: &str, path: &str, error: &io::Error) -> rquickjs::Error {
    Exception::throw_message(ctx, &format!("files.{act}: `{path}`: {}", io_reason(error)))
}

/// An I/O error as a short text.
pub(super) fn io_reason(error: &io::Error) -> String {
    let known = [
        (io::ErrorKind::NotFound, "no such file or folder"),
        (io::ErrorKind::PermissionDenied, "not allowed"),
        (io::ErrorKind::IsADirectory, "it is a folder"),
        (io::ErrorKind::NotADirectory, "it is not a folder"),
        (io::ErrorKind::StorageFull, "the workspace is full"),
        (io::ErrorKind::QuotaExceeded, "the workspace is full"),
    ];
    let why = known.iter().find(|(kind, _)| *kind == error.kind());
    why.map_or_else(|| error.to_string(), |(_, words)| (*words).to_owned())
}

fn resolve_path(ctx: &Ctx<'_>, host: &NativeState, path: &str) -> Result<PathBuf> {
    workspace_path(path)
        .map(|inner| host.workspace.join(inner))
        .ok_or_else(|| Exception::throw_message(ctx, &format!("files: `{path}` is not below {WORKSPACE_PATH}")))
}

/// The path relative to the workspace, or `None` if it leads out. The kernel follows links, inside the jail.
pub(super) fn workspace_path(path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    let relative = if path.is_absolute() {
        path.strip_prefix(WORKSPACE_PATH).ok()?
    } else {
        path
    };
    let mut inner = PathBuf::new();
    for part in relative.components() {
        match part {
            Component::Normal(name) => inner.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !inner.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(inner)
}

#[cfg(test)]
mod tests;
