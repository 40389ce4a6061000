//! Series of requests to a RIB, with signatures that verify: a target cannot forge those by itself.

use rhumb_trust::{Identity, TrustError, Window};
use rhumb_wire::certificate::Locator;
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody};
use rhumb_wire::{Role, Scope, Statement};

/// Publish a node's route and its router's locator, look both up, withdraw, look up again.
pub fn series() -> Result<Vec<Vec<u8>>, TrustError> {
    let node = Identity::generate(Role::Node, 0)?;
    let router = Identity::generate(Role::Router, 0)?;
    let address = "192.0.2.1:7474".parse().expect("an address");
    let locator = Locator::new(address).expect("one that can be sent to");
    // The property's clock starts at 1 and ticks once per request.
    let window = Window::starting(1, 600);
    let route = Statement::Route { via: router.name(), scope: Scope::Any };
    let route = node.certify(route, 1, window)?;
    let locator = router.certify(Statement::Locator(locator), 1, window)?;
    let withdrawal = node.certify(Statement::Withdrawal, 2, window)?;

    let metadata = vec![(**node.metadata()).clone(), (**router.metadata()).clone()];
    let look_up = RibRequestBody::LookUpRoute(node.name());
    let publish = RibRequestBody::Publish { metadata, certificates: vec![route, locator] };
    let withdraw = RibRequestBody::Publish { metadata: vec![], certificates: vec![withdrawal] };
    let describe = RibRequestBody::LookUpMetadata(router.name());
    let bodies = [publish, look_up.clone(), describe, withdraw, look_up];
    let requests = (1..).zip(bodies).map(|(id, body)| RibRequest { id: RequestId(id), body });
    let requests: Vec<Vec<u8>> = requests.map(with_length).collect();
    Ok(vec![requests.concat(), requests[..2].concat(), requests[1].clone()])
}

fn with_length(request: RibRequest) -> Vec<u8> {
    let mut bytes = vec![0; 2];
    request.emit(&mut bytes);
    let len = u16::try_from(bytes.len() - 2).expect("a request is far shorter");
    bytes[..2].copy_from_slice(&len.to_be_bytes());
    bytes
}
