//! The imports of a program. `tools` and `skills` are not modules but global names: an import from them becomes
//! constants at the top. Every other import is refused, and imports of types vanish with the types.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each question is about a few of the many kinds of statement"
)]

use oxc_allocator::Allocator;
use oxc_ast::{
    ast::{
        BindingPattern, Expression, IdentifierName, ImportDeclaration, ImportDeclarationSpecifier, ImportOrExportKind,
        Program, Statement, TSModuleReference, VariableDeclarationKind, VariableDeclarator,
    },
    builder::AstBuilder,
};
use oxc_span::{GetSpan, Span};

/// A global name that can be imported from, and what it exports besides its own members.
struct ImportSource {
    name: &'static str,
    helpers: &'static [&'static str],
}

const SOURCES: [ImportSource; 2] = [
    ImportSource {
        name: "tools",
        helpers: &["search", "describe", "list", "ToolError"],
    },
    ImportSource {
        name: "skills",
        helpers: &[],
    },
];

fn import_source(import: &ImportDeclaration<'_>) -> Option<&'static ImportSource> {
    SOURCES.iter().find(|source| import.source.value == source.name)
}

/// The first import that is refused, with its specifier and place.
pub(super) fn refused_import(program: &Program<'_>) -> Option<(String, Span)> {
    program.body.iter().find_map(|statement| {
        let is_there = matches!(statement, Statement::ImportDeclaration(import) if import_source(import).is_some());
        if is_there { None } else { imported_module(statement) }
    })
}

/// The module that a statement loads at run time, with the place.
fn imported_module(statement: &Statement<'_>) -> Option<(String, Span)> {
    match statement {
        Statement::ImportDeclaration(import) => {
            let only_types = import.import_kind == ImportOrExportKind::Type
                || import
                    .specifiers
                    .as_ref()
                    .is_some_and(|specifiers| !specifiers.is_empty() && specifiers.iter().all(names_a_type));
            (!only_types).then(|| (import.source.value.to_string(), import.span))
        }
        Statement::ExportAllDeclaration(export) => {
            (export.export_kind == ImportOrExportKind::Value).then(|| (export.source.value.to_string(), export.span))
        }
        Statement::ExportFromDeclaration(export) => {
            (export.export_kind == ImportOrExportKind::Value).then(|| (export.source.value.to_string(), export.span))
        }
        Statement::TSImportEqualsDeclaration(import) => match &import.module_reference {
            TSModuleReference::ExternalModuleReference(module) if import.import_kind == ImportOrExportKind::Value => {
                Some((module.expression.value.to_string(), import.span))
            }
            TSModuleReference::ExternalModuleReference(_)
            | TSModuleReference::IdentifierReference(_)
            | TSModuleReference::QualifiedName(_) => None,
        },
        _ => None,
    }
}

fn names_a_type(specifier: &ImportDeclarationSpecifier<'_>) -> bool {
    matches!(specifier, ImportDeclarationSpecifier::ImportSpecifier(one) if one.import_kind == ImportOrExportKind::Type)
}

/// Replaces the imports from `tools` and `skills` by constants.
pub(super) fn bind_imports<'a>(allocator: &'a Allocator, program: &mut Program<'a>) {
    let builder = AstBuilder::new(allocator);
    let mut constants = Vec::new();
    for statement in &mut program.body {
        let Statement::ImportDeclaration(import) = statement else {
            continue;
        };
        let Some(from) = import_source(import) else {
            continue;
        };
        if import.import_kind == ImportOrExportKind::Value {
            constants.extend(declarators(import, from, &builder));
        }
        *statement = Statement::new_empty_statement(statement.span(), &builder);
    }
    if constants.is_empty() {
        return;
    }
    let declarations = oxc_allocator::Vec::from_iter_in(constants, &builder);
    let span = Span::default();
    let kind = VariableDeclarationKind::Const;
    let statement = Statement::new_variable_declaration(span, kind, declarations, false, &builder);
    program.body.insert(0, statement);
}

fn declarators<'a>(
    import: &ImportDeclaration<'a>,
    from: &'static ImportSource,
    builder: &AstBuilder<'a>,
) -> Vec<VariableDeclarator<'a>> {
    let specifiers = import.specifiers.iter().flatten();
    specifiers
        .filter(|specifier| !names_a_type(specifier))
        .map(|specifier| {
            let (local, name) = match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(one) => (&one.local, one.imported.name()),
                ImportDeclarationSpecifier::ImportDefaultSpecifier(one) => (&one.local, "default".into()),
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(one) => (&one.local, "default".into()),
            };
            let span = local.span;
            let global = |name: &'a str| {
                let object = Expression::new_identifier(span, "globalThis", builder);
                let property = IdentifierName::new(span, name, builder);
                Expression::new_static_member_expression(span, object, property, false, builder)
            };
            let value = match from.helpers.iter().find(|helper| **helper == name.as_str()) {
                Some(helper) => global(helper),
                None if name == "default" || name == from.name => global(from.name),
                None => {
                    let key = Expression::new_string_literal(span, name, None, builder);
                    Expression::new_computed_member_expression(span, global(from.name), key, false, builder)
                }
            };
            let pattern = BindingPattern::new_binding_identifier(span, local.name, builder);
            VariableDeclarator::new(span, pattern, None, Some(value), false, builder)
        })
        .collect()
}
