//! `images list`: every base image in each pool. Changes nothing and takes no lock.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use futures::stream;

use crate::cli::{DataFormat, ImagesListArgs};
use crate::report::images::{ImageList, ImageRow, table};
use crate::run::exit::{ExitCode, Facts, pick};
use crate::run::fleet::{Fleet, Setup, load_config_alone, nothing_wanted};
use crate::run::look::{bounded, deadline, signals};
use crate::run::{CommandResult, Context, planning};

/// Runs the command.
///
/// # Errors
/// Problems of the config; the time of `--timeout` was over.
pub(super) async fn run(args: &ImagesListArgs, context: &Context) -> CommandResult {
    let loaded = load_config_alone(&args.config, context)?;
    let desired = nothing_wanted(&loaded)?;
    let signals = signals()?;
    let mut fleet = Fleet::new(
        &Setup {
            providers: &loaded.providers,
            desired: &desired,
            hosts_at_a_time: args.limits.parallelism.map_or(loaded.concurrency.hosts, usize::from),
            downloads: loaded.concurrency.downloads,
            cache_dir: None,
            stop: signals.first.clone(),
            wait_running: false,
        },
        context,
    )?;
    fleet.narrow(&args.hosts)?;
    let asked = fleet.places.iter().filter_map(|place| Some((place, fleet.providers.of(place)?)));
    let answers = stream::iter(asked)
        .map(|(place, provider)| async move { (place.clone(), provider.images(&place.host).await) })
        .buffer_unordered(fleet.hosts_at_a_time)
        .collect::<BTreeMap<_, _>>();
    let Some(answers) = bounded(&fleet, &signals, deadline(args.limits.timeout), answers).await? else {
        return Ok(ExitCode::Interrupted);
    };
    let (hosts, mut list) = (answers.len(), ImageList { images: Vec::new(), unknown_hosts: BTreeMap::new() });
    for (place, answer) in answers {
        match answer {
            Ok(images) => list.images.extend(images.into_iter().map(|image| ImageRow::of(&place, image))),
            Err(trouble) => {
                context.terminal.say(&format!("{place} is unknown: {}", trouble.message));
                list.unknown_hosts.insert(place, trouble);
            }
        }
    }
    list.images.sort();
    let text = match args.output {
        DataFormat::Human => table(&list.images),
        DataFormat::Json => planning::json_text(&list)?,
    };
    context.terminal.data(text.as_bytes())?;
    let unknown = list.unknown_hosts.len();
    Ok(pick(&Facts { failed: unknown == hosts, incomplete: unknown > 0, ..Facts::default() }))
}
