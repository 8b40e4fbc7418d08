//! A small pure model of what hosts become when a plan is carried out, so that planning again can be
//! asked whether it is done.

use std::collections::BTreeSet;

use crate::plan::change::{Action, ActionId, ActionKind, MarkUpdate, Plan};
use crate::plan::desired::{Managed, Mode};
use crate::plan::fixture::{World, now};
use crate::plan::observed::{Address, BaseImage, HostState, HostView, Instance, Mark, MarkState, Power, Standing};

/// Carries out what the plan says, in an order that its `after` allows.
pub fn carry_out(world: &World, plan: &Plan) -> World {
    let mut world = world.clone();
    for image in &plan.images {
        let base = BaseImage { name: image.image.key.clone(), bytes: 1, virtual_bytes: Some(1) };
        view(&mut world, &image.place).images.insert(image.image.id.clone(), base);
    }
    let mut done: BTreeSet<&ActionId> = BTreeSet::new();
    while done.len() < plan.actions.len() {
        let before = done.len();
        for action in &plan.actions {
            if !done.contains(&action.id) && action.after.iter().all(|id| done.contains(id)) {
                perform(&mut world, action);
                done.insert(&action.id);
            }
        }
        assert!(done.len() > before, "actions wait for each other");
    }
    world
}

fn view<'a>(world: &'a mut World, place: &crate::plan::HostRef) -> &'a mut HostView {
    match world.observed.hosts.get_mut(place) {
        Some(HostState::Known(view)) => view,
        _ => panic!("{place} is not known"),
    }
}

fn perform(world: &mut World, action: &Action) {
    let made = action.kind.make().map(|_| made(world, action));
    let view = view(world, &action.place);
    if let Some(expect) = action.kind.expect() {
        let found = view.instances.iter().find(|instance| instance.name == action.instance).expect("there");
        assert_eq!(found.uuid, expect.uuid);
    }
    match &action.kind {
        ActionKind::Create { .. } => {}
        ActionKind::Start { set, .. } => {
            change(view, action, set);
            let instance = view.instances.iter_mut().find(|it| it.name == action.instance).expect("there");
            instance.power = Power::Running;
        }
        ActionKind::Update { set, .. } => change(view, action, set),
        ActionKind::Replace { .. } | ActionKind::Delete { .. } => {
            view.instances.retain(|instance| instance.name != action.instance);
        }
    }
    if let Some(instance) = made {
        assert!(view.instances.iter().all(|other| other.name != instance.name), "{} is there", instance.name);
        view.instances.push(instance);
    }
}

fn change(view: &mut HostView, action: &Action, set: &MarkUpdate) {
    let instance = view.instances.iter_mut().find(|instance| instance.name == action.instance).expect("there");
    let Standing::Ours(mark) = &mut instance.standing else { panic!("not ours") };
    mark.port = set.port;
    mark.labels.clone_from(&set.labels);
    mark.protect = set.protect;
    mark.source.clone_from(&set.source);
}

/// The machine that an action makes, as its manifest says.
fn made(world: &World, action: &Action) -> Instance {
    let Mode::Managed(managed) = &world.desired.proxies[&action.key].mode else { panic!("wanted") };
    let Managed { resolved: Ok(resolved), .. } = &**managed else { panic!("resolved") };
    let name = resolved.instance.clone();
    let uuid = format!("made-{name}");
    let addresses = managed.spec.network.iter().flat_map(|network| &network.addresses);
    let mark = Mark {
        fleet: world.desired.fleet.to_string(),
        provider: action.place.entry.to_string(),
        host: action.place.host.to_string(),
        proxy: action.key.clone(),
        machine: uuid.clone(),
        state: MarkState::Ready,
        spec: resolved.spec.clone(),
        catalogue: resolved.catalogue.clone(),
        addresses: addresses.map(ToString::to_string).collect(),
        port: managed.port,
        labels: resolved.labels.clone(),
        protect: managed.protect,
        created_at: now(),
        started_at: Some(now()),
        source: world.desired.source.clone(),
        tool: "0.1.0".to_owned(),
        uid: None,
    };
    Instance {
        removes: vec![format!("{name}.qcow2")],
        disk_bytes: resolved.disk_bytes,
        name,
        uuid,
        standing: Standing::Ours(Box::new(mark)),
        power: Power::Running,
        transient: false,
        missing_disks: Vec::new(),
        address: Address::NotAsked,
    }
}
