//! Transpiles TypeScript or JavaScript into one JavaScript module for `QuickJS`.
//!
//! The last expression statement becomes the default export, so the module's namespace holds the program's value. Types
//! are removed and never checked: a program that only a type checker would refuse runs.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each question is about a few of the many kinds of statement"
)]

use std::path::Path;

use oxc_allocator::{Allocator, TakeIn};
use oxc_ast::{
    ast::{Declaration, ExportDefaultDeclarationKind, Expression, ModuleExportName, Program, Statement},
    builder::AstBuilder,
};
use oxc_codegen::{Codegen, CodegenOptions, CommentOptions};
use oxc_diagnostics::{OxcDiagnostic, Severity};
use oxc_parser::Parser;
use oxc_semantic::SemanticBuilder;
use oxc_span::{GetSpan, SourceType, Span};
use oxc_transformer::{TransformOptions, Transformer};

use super::{
    ScriptLanguage, SyntaxDiagnostic, imports, nesting,
    positions::{LineIndex, SourceMap},
};

/// The most diagnostics that are reported: after a slip, the rest is noise.
const MAX_DIAGNOSTICS: usize = 20;

/// Why a source cannot become a module.
#[derive(Debug)]
pub(super) enum TranspileError {
    /// The source is not valid in its language.
    Syntax(Vec<SyntaxDiagnostic>),
    /// The source imports a module that cannot be imported.
    Import { specifier: String, line: u32, column: u32 },
}

/// Transpiles the source into the module to run.
pub(super) fn transpile_module(source: &str, file: &str, language: ScriptLanguage) -> Result<String, TranspileError> {
    let allocator = Allocator::default();
    let program = parse_and_lower(&allocator, source, file, language)?;
    Ok(Codegen::new().with_options(codegen_options()).build(&program).code)
}

/// Maps each part of [`transpile_module`]'s text to its source. This repeats the transpilation, so that only failing programs pay for it.
pub(super) fn source_map(source: &str, file: &str, language: ScriptLanguage) -> SourceMap {
    let allocator = Allocator::default();
    let Ok(program) = parse_and_lower(&allocator, source, file, language) else {
        return SourceMap::default();
    };
    let options = CodegenOptions {
        source_map_path: Some(Path::new(file).to_owned()),
        ..codegen_options()
    };
    let printed = Codegen::new().with_options(options).build(&program);
    let Some(map) = printed.map else {
        return SourceMap::default();
    };
    let tokens = map.get_tokens().map(|token| {
        (
            token.get_dst_line(),
            token.get_dst_col(),
            token.get_src_line(),
            token.get_src_col(),
        )
    });
    SourceMap::new(tokens)
}

fn codegen_options() -> CodegenOptions {
    CodegenOptions {
        comments: CommentOptions::disabled(),
        ..CodegenOptions::default()
    }
}

fn parse_and_lower<'a>(
    allocator: &'a Allocator,
    source: &'a str,
    file: &str,
    language: ScriptLanguage,
) -> Result<Program<'a>, TranspileError> {
    let lines = LineIndex::new(source);
    if let Some(offset) = nesting::find_too_deep(source) {
        let (line, column) = lines.position(offset);
        let message = format!("brackets are nested deeper than {}", nesting::MAX_DEPTH);
        let code = "syntax".to_owned();
        let found = SyntaxDiagnostic {
            file: file.to_owned(),
            line,
            column,
            code,
            message,
            hint: None,
        };
        return Err(TranspileError::Syntax(vec![found]));
    }
    let report = |found: &[OxcDiagnostic], concerns_types: fn(&OxcDiagnostic) -> bool| {
        let kept: Vec<_> = found
            .iter()
            .filter(|one| one.severity == Severity::Error && !concerns_types(one))
            .take(MAX_DIAGNOSTICS)
            .map(|one| to_diagnostic(one, file, &lines))
            .collect();
        if kept.is_empty() {
            Ok(())
        } else {
            Err(TranspileError::Syntax(kept))
        }
    };
    let source_type = match language {
        ScriptLanguage::TypeScript => SourceType::ts().with_module(true),
        ScriptLanguage::JavaScript => SourceType::mjs(),
    };
    let parsed = Parser::new(allocator, source, source_type).parse();
    if parsed.panicked {
        let found: Vec<_> = parsed
            .diagnostics
            .iter()
            .take(MAX_DIAGNOSTICS)
            .map(|one| to_diagnostic(one, file, &lines))
            .collect();
        return Err(TranspileError::Syntax(found));
    }
    report(&parsed.diagnostics, is_type_error)?;
    let mut program = parsed.program;
    refuse_imports(&program, &lines)?;
    export_value(allocator, &mut program);
    imports::bind_imports(allocator, &mut program);
    let semantic = SemanticBuilder::new()
        .with_check_syntax_error(true)
        .with_enum_eval(true)
        .with_excess_capacity(1.0)
        .build(&program);
    // What TypeScript numbers here concerns how types are written; the engine still refuses what cannot run.
    report(&semantic.diagnostics, is_typescript_diagnostic)?;
    if language == ScriptLanguage::TypeScript {
        let scoping = semantic.semantic.into_scoping();
        let transformed = Transformer::new(allocator, Path::new(file), &TransformOptions::default())
            .build_with_scoping(scoping, &mut program);
        report(&transformed.diagnostics, is_type_error)?;
    }
    Ok(program)
}

/// Whether a diagnostic comes from the type checker. TypeScript numbers those from 2000 on; lower numbers are syntax errors.
fn is_type_error(found: &OxcDiagnostic) -> bool {
    is_typescript_diagnostic(found)
        && found
            .code
            .number
            .as_deref()
            .is_some_and(|number| number.starts_with('2'))
}

fn is_typescript_diagnostic(found: &OxcDiagnostic) -> bool {
    found
        .code
        .scope
        .as_deref()
        .is_some_and(|scope| scope.eq_ignore_ascii_case("ts"))
}

fn to_diagnostic(found: &OxcDiagnostic, file: &str, lines: &LineIndex<'_>) -> SyntaxDiagnostic {
    let offset = found.labels.first().map_or(0, oxc_span::LabeledSpan::offset);
    let (line, column) = lines.position(offset);
    let code = if found.code.is_some() {
        found.code.to_string()
    } else {
        "syntax".to_owned()
    };
    SyntaxDiagnostic {
        file: file.to_owned(),
        line,
        column,
        code,
        message: found.message.to_string(),
        hint: found.help.as_ref().map(ToString::to_string),
    }
}

fn refuse_imports(program: &Program<'_>, lines: &LineIndex<'_>) -> Result<(), TranspileError> {
    let Some((specifier, span)) = imports::refused_import(program) else {
        return Ok(());
    };
    let (line, column) = lines.position(span.start);
    Err(TranspileError::Import {
        specifier,
        line,
        column,
    })
}

/// Makes the last expression statement the default export, unless the program has a default export.
fn export_value<'a>(allocator: &'a Allocator, program: &mut Program<'a>) {
    if program.body.iter().any(exports_default) {
        return;
    }
    let builder = AstBuilder::new(allocator);
    let last = program
        .body
        .iter_mut()
        .rev()
        .find(|statement| !only_declares(statement));
    if let Some(statement) = last {
        let span = statement.span();
        if let Statement::ExpressionStatement(expression) = statement {
            let value = expression.expression.take_in(&builder);
            *statement = default_export(span, value, &builder);
        }
    } else if let Some(directive) = program.directives.pop() {
        // A program of one string is parsed as a directive.
        let span = directive.span;
        let text = oxc_allocator::Box::new_in(directive.expression, &builder);
        let value = Expression::StringLiteral(text);
        program.body.push(default_export(span, value, &builder));
    }
}

fn default_export<'a>(span: Span, value: Expression<'a>, builder: &AstBuilder<'a>) -> Statement<'a> {
    let value = ExportDefaultDeclarationKind::from(value);
    Statement::new_export_default_declaration(span, value, builder)
}

fn exports_default(statement: &Statement<'_>) -> bool {
    match statement {
        Statement::ExportDefaultDeclaration(_) => true,
        Statement::ExportNamedDeclaration(export) => export.specifiers.iter().any(|one| match &one.exported {
            ModuleExportName::IdentifierName(name) => name.name == "default",
            ModuleExportName::IdentifierReference(name) => name.name == "default",
            ModuleExportName::StringLiteral(name) => name.value == "default",
        }),
        _ => false,
    }
}

/// Whether a statement may follow the last expression without hiding it, because it runs nothing.
fn only_declares(statement: &Statement<'_>) -> bool {
    match statement {
        Statement::EmptyStatement(_)
        | Statement::FunctionDeclaration(_)
        | Statement::TSTypeAliasDeclaration(_)
        | Statement::TSInterfaceDeclaration(_)
        | Statement::TSGlobalDeclaration(_)
        | Statement::ImportDeclaration(_)
        | Statement::ExportNamedDeclaration(_) => true,
        Statement::ExportDeclaration(export) => matches!(
            &export.declaration,
            Declaration::FunctionDeclaration(_)
                | Declaration::TSTypeAliasDeclaration(_)
                | Declaration::TSInterfaceDeclaration(_)
        ),
        _ => false,
    }
}
