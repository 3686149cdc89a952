//! `ringfence token`: manages access tokens for clients of `serve`.

use std::process::ExitCode;

use ringfence_journal::TokenId;
use ringfence_store::{AccessToken, Scope, Store, TokenError};
use serde_json::json;

use super::store;
use crate::args::{TokenCommand, TokenCreate, TokenList, TokenRevoke, TokenScope};
use crate::fault::{Fault, NOT_HELD, chain};
use crate::print::{Printer, Style, moment};
use crate::settings::Settings;

pub(crate) async fn start(command: TokenCommand, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    match command {
        TokenCommand::Create(args) => create(&args, settings, printer).await,
        TokenCommand::List(args) => list(&args, settings, printer).await,
        TokenCommand::Revoke(args) => revoke(&args, settings, printer).await,
    }
}

/// Creates an access token, and the data folder if this is the first use of it.
async fn create(args: &TokenCreate, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let store = Store::open(&settings.home()?).await?;
    let scope = match args.scope {
        TokenScope::Viewer => Scope::Viewer,
        TokenScope::Agent => Scope::Agent,
        TokenScope::Operator => Scope::Operator,
    };
    let made = store.create_token(&args.name, scope).await;
    store.leave().await;
    let (token, secret) = made.map_err(|error| fault(&error))?;
    tracing::info!(token = %token.id, name = token.name, scope = %token.scope, "an access token was made");
    if args.json {
        printer.json(&json!({
            "id": token.id, "name": token.name, "scope": token.scope, "created": token.created,
            "secret": secret.reveal(),
        }))?;
    } else {
        printer.line(secret.reveal())?;
        printer.notice(&format!(
            "{} `{}` ({}); the secret is not kept and is not shown again",
            token.id, token.name, token.scope
        ));
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(args: &TokenList, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let tokens = match store(settings).await {
        Err(fault) if fault.code == "store.none" => Vec::new(),
        Err(fault) => return Err(fault),
        Ok(store) => {
            let tokens = store.tokens();
            store.leave().await;
            tokens?
        }
    };
    if args.json {
        printer.json(&tokens)?;
    } else if tokens.is_empty() {
        printer.notice("there are no access tokens; `ringfence token create --name NAME --scope agent` makes one");
    } else {
        printer.line(&format!(
            "{:<28}  {:<8}  {:<7}  {:<20}  {:<20}  NAME",
            "ID", "SCOPE", "STATE", "CREATED", "LAST USED"
        ))?;
        for token in &tokens {
            printer.line(&row(token, printer))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(token: &AccessToken, printer: &Printer) -> String {
    let state = match token.revoked {
        Some(_) => printer.paint("revoked", Style::Faint),
        None => printer.paint("in use ", Style::Good),
    };
    let used = token.last_used.map_or_else(|| "never".to_owned(), moment);
    let scope = token.scope.name();
    format!(
        "{}  {scope:<8}  {state}  {:<20}  {used:<20}  {}",
        token.id,
        moment(token.created),
        token.name
    )
}

async fn revoke(args: &TokenRevoke, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let id: TokenId = args.id.parse().map_err(|error: ringfence_journal::IdError| {
        Fault::ours("token.id", format!("`{}` is {error}", args.id))
            .hint("`ringfence token list` shows the ids")
            .exit(NOT_HELD)
    })?;
    let store = store(settings).await?;
    let revoked = store.revoke_token(id).await;
    store.leave().await;
    let at = revoked.map_err(|error| fault(&error))?;
    tracing::info!(token = %id, "an access token was revoked");
    printer.line(&format!("{id}  revoked  {at}"))?;
    Ok(ExitCode::SUCCESS)
}

fn fault(error: &TokenError) -> Fault {
    let fault = Fault::ours(error.code(), chain(error)).exit(NOT_HELD);
    match error.hint() {
        Some(hint) => fault.hint(hint),
        None => fault,
    }
}
