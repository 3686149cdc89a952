//! `ringfence token`: manages access tokens for clients of `serve`.

use std::process::ExitCode;

use ringfence_journal::TokenId;
use ringfence_store::{AccessScope, AccessToken, Store, TokenError};
use serde_json::json;

use super::open_store;
use crate::args::{TokenCommand, TokenCreate, TokenList, TokenRevoke, TokenScope};
use crate::fault::{CliFault, EXIT_CHECK_FAILED, error_chain};
use crate::print::{Printer, Style, moment};
use crate::settings::CliSettings;

pub(crate) async fn dispatch(
    command: TokenCommand,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    match command {
        TokenCommand::Create(args) => create_token(&args, settings, printer).await,
        TokenCommand::List(args) => list_tokens(&args, settings, printer).await,
        TokenCommand::Revoke(args) => revoke_token(&args, settings, printer).await,
    }
}

/// Creates an access token, and the data folder if this is the first use of it.
async fn create_token(args: &TokenCreate, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let store = Store::open(&settings.home()?).await?;
    let scope = match args.scope {
        TokenScope::Viewer => AccessScope::Viewer,
        TokenScope::Agent => AccessScope::Agent,
        TokenScope::Operator => AccessScope::Operator,
    };
    let made = store.access_tokens().create(&args.name, scope).await;
    store.close_for_exit().await;
    let (token, secret) = made.map_err(|error| token_fault(&error))?;
    tracing::info!(token = %token.id, name = token.name, scope = %token.scope, "an access token was made");
    if args.json {
        printer.print_json(&json!({
            "id": token.id, "name": token.name, "scope": token.scope, "created": token.created,
            "secret": secret.reveal(),
        }))?;
    } else {
        printer.print_line(secret.reveal())?;
        printer.notice(&format!(
            "{} `{}` ({}); the secret is not kept and is not shown again",
            token.id, token.name, token.scope
        ));
    }
    Ok(ExitCode::SUCCESS)
}

async fn list_tokens(args: &TokenList, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let tokens = match open_store(settings).await {
        Err(fault) if fault.code == "store.none" => Vec::new(),
        Err(fault) => return Err(fault),
        Ok(store) => {
            let tokens = store.access_tokens().list();
            store.close_for_exit().await;
            tokens?
        }
    };
    if args.json {
        printer.print_json(&tokens)?;
    } else if tokens.is_empty() {
        printer.notice("there are no access tokens; `ringfence token create --name NAME --scope agent` makes one");
    } else {
        printer.print_line(&format!(
            "{:<28}  {:<8}  {:<7}  {:<20}  {:<20}  NAME",
            "ID", "SCOPE", "STATE", "CREATED", "LAST USED"
        ))?;
        for token in &tokens {
            printer.print_line(&token_row(token, printer))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn token_row(token: &AccessToken, printer: &Printer) -> String {
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

async fn revoke_token(args: &TokenRevoke, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let id: TokenId = args.id.parse().map_err(|error: ringfence_journal::IdError| {
        CliFault::internal("token.id", format!("`{}` is {error}", args.id))
            .with_hint("`ringfence token list` shows the ids")
            .with_exit(EXIT_CHECK_FAILED)
    })?;
    let store = open_store(settings).await?;
    let revoked = store.access_tokens().revoke(id).await;
    store.close_for_exit().await;
    let at = revoked.map_err(|error| token_fault(&error))?;
    tracing::info!(token = %id, "an access token was revoked");
    printer.print_line(&format!("{id}  revoked  {}", moment(at)))?;
    Ok(ExitCode::SUCCESS)
}

fn token_fault(error: &TokenError) -> CliFault {
    let fault = CliFault::internal(error.code(), error_chain(error)).with_exit(EXIT_CHECK_FAILED);
    match error.hint() {
        Some(hint) => fault.with_hint(hint),
        None => fault,
    }
}
