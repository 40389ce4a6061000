//! Section 2: a certificate of each type, lists, one signature of P-256, and what must be refused.

use rhumb_trust::{
    MAX_MEMBERSHIP_LIFETIME_S, Membership, Removal, Window, name_of, verify_names, verify_statement,
};
use rhumb_wire::certificate::{Locator, SIGNATURE_LEN};
use rhumb_wire::{Certificate, Limits, Metadata, PublishedNames, Rights, Role, Scope, Statement};
use serde_json::{Value, json};

use super::file::{File, hex};
use super::names::on_p256;
use super::parties::{LIFETIME_S, NOW_S, Parties, Party, SEQUENCE};

pub(crate) fn write(parties: &Parties, file: &mut File) {
    let Parties { alice, far, bob, near, rib, capsule, domain, .. } = parties;
    let route = alice.route(near);
    let locator = near.locator("192.0.2.1:7460");
    let inside = Limits { names: 10, kbit_per_s: 2_000, inside_only: true, only_to: None };
    let one = Limits { names: 1, only_to: Some(bob.name), ..Limits::NONE };
    let both = Limits { only_to: Some(bob.name), ..inside };
    let limited = |limits| domain.member_within(limits, alice, Rights::JOIN);
    let one_of_several = Statement::Route { via: near.name, scope: Scope::Several };
    let served_by_several = Statement::Service { server: alice.name, several: true };
    let by_neighbour =
        |up_to| Statement::Route { via: near.name, scope: Scope::ByNeighbour { up_to } };
    let one_second = Window { not_before_s: NOW_S, not_after_s: NOW_S };
    for (name, certificate) in [
        ("route", route.clone()),
        ("route for one destination", alice.route_for(near, bob)),
        ("locator of IPv4", locator.clone()),
        ("locator of IPv6", near.locator("[2001:db8::1]:7460")),
        ("withdrawal", alice.says_at(Statement::Withdrawal, SEQUENCE + 1, one_second)),
        ("absence", rib.says(Statement::Absence { subject: bob.name })),
        ("service", capsule.service(alice)),
        ("export", alice.export(domain, None)),
        ("route by one way of several", alice.says(one_of_several)),
        ("service of one of several", capsule.says(served_by_several)),
        ("export up to a domain", alice.export(domain, Some(far))),
        ("export by a neighbour", domain.says(by_neighbour(None))),
        ("export by a neighbour up to it", domain.says(by_neighbour(Some(near.name)))),
        ("member", domain.member(near, Rights::JOIN.and(Rights::CARRY))),
        ("member that sends inside", limited(inside)),
        ("member that sends to one", limited(one)),
        ("member that sends to one, inside", limited(both)),
        ("removal", domain.removal(near)),
        ("route signed with P-256", signed_with_p256(parties)),
    ] {
        file.good("2", "certificate", name, &fields(&certificate), &emitted(&certificate));
    }
    route_refusals(&emitted(&route), file);
    locator_refusals(&emitted(&locator), file);
    let mut wide = emitted(&limited(both));
    wide[2] = 4;
    file.refused("2", "certificate", "a member's scope 4", &wide, Certificate::parse(&wide));
    wide[2] = 0;
    file.refused("2", "certificate", "a member and a name", &wide, Certificate::parse(&wide));
    lists(&[route, locator], file);
    published(parties, file);
    memberships(parties, file);
    removals(parties, file);
}

/// Lists of names, and what is none.
fn published(parties: &Parties, file: &mut File) {
    let Parties { alice, bob, near, .. } = parties;
    let two = alice.publishes(&[("camera", near), ("door-2", bob)]);
    let bytes = published_bytes(&two);
    for (name, published) in [("two names", &two), ("no names", &alice.publishes(&[]))] {
        let names: serde_json::Map<_, _> = published
            .names
            .iter()
            .map(|(it, name)| (it.to_string(), json!(name.to_string())))
            .collect();
        let fields = json!({
            "sequence": published.sequence,
            "not_before_s": published.not_before_s,
            "not_after_s": published.not_after_s,
            "owner": published.owner.to_string(),
            "names": names,
            "signature": hex(&published.signature),
            "metadata": hex(&alice.metadata.emit()),
            "now_s": NOW_S,
        });
        file.good("2.1", "published names", name, &fields, &published_bytes(published));
    }
    // The first label begins behind the count and its length, the second behind a name more.
    let (count, label) = (60, 62);
    let second = label + "camera".len() + 32 + 1;
    for (name, at, value) in [
        ("type 7", 1, 7),
        ("scope 1", 2, 1),
        ("a reserved byte", 3, 1),
        ("25 labels", count, 25),
        ("a label of none", label - 1, 0),
        ("a label in upper case", label, b'C'),
        ("a label with a dot", label + 1, b'.'),
        ("a label that begins with a hyphen", label, b'-'),
        ("labels out of order", second, b'b'),
        ("cut short", count, 3),
    ] {
        let mut bent = bytes.clone();
        bent[at] = value;
        file.refused("2.1", "published names", name, &bent, PublishedNames::parse(&bent));
    }
    let twice = [&bytes[..count + 1], &bytes[count + 1..second - 1].repeat(2), &[0; 64]].concat();
    file.refused("2.1", "published names", "a label twice", &twice, PublishedNames::parse(&twice));
    file.refused("2", "certificate", "a list of names", &bytes, Certificate::parse(&bytes));
    for (name, at) in [("another's signature", 28), ("another name", count + 9)] {
        let mut bent = bytes.clone();
        bent[at] ^= 1;
        let parsed = PublishedNames::parse(&bent).unwrap();
        let believed = verify_names(parsed, &alice.metadata, NOW_S);
        let vector = file.refused("2.1", "published names", name, &bent, believed);
        vector["fields"] = json!({"metadata": hex(&alice.metadata.emit()), "now_s": NOW_S});
    }
}

pub(crate) fn published_bytes(published: &PublishedNames) -> Vec<u8> {
    let mut bytes = Vec::new();
    published.emit(&mut bytes);
    assert_eq!(PublishedNames::parse(&bytes).as_ref(), Ok(published));
    bytes
}

/// Certificates and their issuers' metadata.
fn with_issuers(issuers: &[&Party], certificates: &[Certificate]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let issuers: Vec<_> = issuers.iter().map(|issuer| issuer.metadata.clone()).collect();
    Metadata::emit_list(&issuers, &mut bytes);
    Certificate::emit_list(certificates, &mut bytes);
    bytes
}

fn removals(parties: &Parties, file: &mut File) {
    let Parties { alice, near, far, domain, .. } = parties;
    let to_far = domain.member(far, Rights::JOIN.and(Rights::ADMIT));
    for (name, issuers, certificates) in [
        ("by the domain itself", vec![domain], vec![domain.removal(alice)]),
        ("by a key that it admitted", vec![domain, far], vec![to_far.clone(), far.removal(alice)]),
    ] {
        let bytes = with_issuers(&issuers, &certificates);
        let removal = Removal::parse(&bytes).unwrap().verify(NOW_S).unwrap();
        let metadata: Vec<_> = issuers.iter().map(|it| hex(&it.metadata.emit())).collect();
        let fields = json!({
            "issuer": removal.issuer().to_string(),
            "removed": removal.removed().to_string(),
            "issuers": metadata,
            "certificates": hexes(&certificates),
        });
        file.good("3.1", "removal", name, &fields, &bytes);
    }
    let long = Window::starting(NOW_S, MAX_MEMBERSHIP_LIFETIME_S + 1);
    let long = domain.says_at(Statement::Removal { member: alice.name }, SEQUENCE, long);
    let barren = domain.member(far, Rights::JOIN);
    for (name, issuers, certificates) in [
        ("none", vec![], vec![]),
        ("by a stranger", vec![far], vec![far.removal(alice)]),
        ("by a member that may not admit", vec![domain, far], vec![barren, far.removal(alice)]),
        ("by another name than was admitted", vec![domain, near], {
            vec![to_far.clone(), near.removal(alice)]
        }),
        ("of its issuer", vec![domain], vec![domain.removal(domain)]),
        ("of who admitted its issuer", vec![domain, far], vec![to_far, far.removal(domain)]),
        ("more than 366 days", vec![domain], vec![long]),
        ("another type", vec![domain], vec![domain.member(near, Rights::JOIN)]),
    ] {
        let bytes = with_issuers(&issuers, &certificates);
        file.refused("3.1", "removal", name, &bytes, Removal::parse(&bytes));
    }
}

fn memberships(parties: &Parties, file: &mut File) {
    let Parties { alice, near, far, domain, .. } = parties;
    let bytes = with_issuers;
    let working = Rights::JOIN.and(Rights::ADMIT);
    let direct = domain.member(alice, Rights::JOIN);
    let serves = domain.member(alice, Rights::JOIN.and(Rights::SERVE));
    let (to_far, on) = (domain.member(far, working), far.member(alice, Rights::JOIN));
    let own = Limits { names: 10, kbit_per_s: 1_000, inside_only: true, only_to: Some(near.name) };
    let to_far_within = domain.member_within(own, far, working);
    let on_within = |limits| far.member_within(limits, alice, Rights::JOIN);
    let less = on_within(Limits { names: 3, kbit_per_s: 500, ..own });
    for (name, issuers, certificates) in [
        ("by the domain itself", vec![domain], vec![direct.clone()]),
        ("of one who may serve", vec![domain], vec![serves]),
        ("by a key that it admitted", vec![domain, far], vec![to_far.clone(), on.clone()]),
        ("within narrower limits", vec![domain, far], vec![to_far_within.clone(), less]),
    ] {
        let bytes = bytes(&issuers, &certificates);
        let membership = Membership::parse(&bytes).unwrap();
        membership.check(&alice.name, NOW_S).unwrap();
        let metadata: Vec<_> = issuers.iter().map(|it| hex(&it.metadata.emit())).collect();
        let fields = json!({
            "domain": membership.domain().to_string(),
            "member": membership.member().to_string(),
            "rights": membership.rights().names().collect::<Vec<_>>(),
            "limits": limits_of(&membership.limits()),
            "issuers": metadata,
            "certificates": hexes(&certificates),
        });
        file.good("3.1", "membership", name, &fields, &bytes);
    }
    let long = Window::starting(NOW_S, MAX_MEMBERSHIP_LIFETIME_S + 1);
    let (rights, limits) = (Rights::JOIN, Limits::NONE);
    let statement = Statement::Member { member: alice.name, rights, limits };
    let long = domain.says_at(statement, SEQUENCE, long);
    let wide = far.member(alice, Rights::CARRY);
    let barren = domain.member(far, Rights::JOIN);
    let back = far.member(domain, Rights::JOIN);
    for (name, issuers, certificates) in [
        ("none", vec![], vec![]),
        ("a key is missing", vec![domain], vec![to_far.clone(), on.clone()]),
        ("its first issuer is no domain", vec![far], vec![on.clone()]),
        ("a right that its giver has not", vec![domain, far], vec![to_far.clone(), wide]),
        ("its giver may not admit", vec![domain, far], vec![barren, on.clone()]),
        ("by another name", vec![domain, near], vec![to_far.clone(), on]),
        ("of the domain in itself", vec![domain, far], vec![to_far, back]),
        ("more than 366 days", vec![domain], vec![long]),
        ("another type", vec![domain], vec![domain.route(near)]),
    ] {
        let bytes = bytes(&issuers, &certificates);
        file.refused("3.1", "membership", name, &bytes, Membership::parse(&bytes));
    }
    for (name, limits) in [
        ("more names than its giver has", Limits { names: 11, ..own }),
        ("names without a bound", Limits { names: 0, ..own }),
        ("more rate than its giver has", Limits { kbit_per_s: 1_001, ..own }),
        ("rate without a bound", Limits { kbit_per_s: 0, ..own }),
        ("no longer inside", Limits { inside_only: false, ..own }),
        ("no longer to one", Limits { only_to: None, ..own }),
        ("to another one", Limits { only_to: Some(alice.name), ..own }),
    ] {
        let bytes = bytes(&[domain, far], &[to_far_within.clone(), on_within(limits)]);
        file.refused("3.1", "membership", name, &bytes, Membership::parse(&bytes));
    }
    let mut bent = bytes(&[domain], &[direct]);
    let at = bent.len() - SIGNATURE_LEN - 9;
    bent[at] = 32;
    file.refused("3.1", "membership", "an unknown right", &bent, Membership::parse(&bent));
}

/// The key is 1. ECDSA has many signatures of one message; this one is
/// deterministic ECDSA's (RFC 6979), made elsewhere.
fn signed_with_p256(parties: &Parties) -> Certificate {
    let issuer = on_p256(Role::Node);
    let statement = Statement::Route { via: parties.near.name, scope: Scope::Any };
    let Window { not_before_s, not_after_s } = Window::starting(NOW_S, LIFETIME_S);
    let mut certificate = Certificate {
        sequence: SEQUENCE,
        not_before_s,
        not_after_s,
        issuer: name_of(&issuer),
        statement,
        signature: [0; SIGNATURE_LEN],
    };
    certificate.signature = P256_SIGNATURE;
    verify_statement(&certificate, &issuer, NOW_S).unwrap();
    certificate
}

fn route_refusals(route: &[u8], file: &mut File) {
    let changes: [(&str, usize, u8); 7] = [
        ("version 2", 0, 2),
        ("type 0", 1, 0),
        ("type 8", 1, 8),
        ("scope 2", 2, 2),
        ("scope 4", 2, 4),
        ("a reserved byte set", 3, 1),
        ("ends before it begins", 12, 0xFF),
    ];
    for (name, at, value) in changes {
        let mut bent = route.to_vec();
        bent[at] = value;
        file.refused("2", "certificate", name, &bent, Certificate::parse(&bent));
    }
    let mut service = route.to_vec();
    (service[1], service[2]) = (5, 1);
    file.refused("2", "certificate", "a service's scope", &service, Certificate::parse(&service));
    let short = &route[..route.len() - 1];
    file.refused("2", "certificate", "cut short", short, Certificate::parse(short));
    let long = [route, &[0]].concat();
    file.refused("2", "certificate", "a byte too many", &long, Certificate::parse(&long));
}

fn locator_refusals(locator: &[u8], file: &mut File) {
    let ip4 = |octets: [u8; 4]| [&[0; 10][..], &[0xFF; 2], &octets].concat();
    let mut multicast6 = vec![0xFF, 2];
    multicast6.resize(16, 1);
    for (name, ip, port) in [
        ("port 0", ip4([192, 0, 2, 1]), 0u16),
        ("0.0.0.0", ip4([0; 4]), 7460),
        ("::", vec![0; 16], 7460),
        ("multicast of IPv4", ip4([224, 0, 0, 1]), 7460),
        ("multicast of IPv6", multicast6, 7460),
        ("broadcast", ip4([255; 4]), 7460),
    ] {
        let mut bent = locator.to_vec();
        bent[60..76].copy_from_slice(&ip);
        bent[76..78].copy_from_slice(&port.to_be_bytes());
        let name = format!("locator: {name}");
        file.refused("2", "certificate", &name, &bent, Certificate::parse(&bent));
    }
}

fn lists(list: &[Certificate], file: &mut File) {
    let mut bytes = Vec::new();
    Certificate::emit_list(list, &mut bytes);
    let fields = json!({"certificates": hexes(list)});
    file.good("2", "certificate list", "two", &fields, &bytes);
    file.refused("2", "certificate list", "none", &[0], Certificate::parse_list(&[0]));
    let mut nine = vec![9];
    (0..9).for_each(|_| list[1].emit(&mut nine));
    file.refused("2", "certificate list", "nine", &nine, Certificate::parse_list(&nine));
}

pub(crate) fn hexes(list: &[Certificate]) -> Vec<String> {
    list.iter().map(|certificate| hex(&emitted(certificate))).collect()
}

fn emitted(certificate: &Certificate) -> Vec<u8> {
    let mut bytes = Vec::new();
    certificate.emit(&mut bytes);
    assert_eq!(Certificate::parse(&bytes).as_ref(), Ok(certificate));
    bytes
}

fn fields(certificate: &Certificate) -> Value {
    let mut fields = json!({
        "sequence": certificate.sequence,
        "not_before_s": certificate.not_before_s,
        "not_after_s": certificate.not_after_s,
        "issuer": certificate.issuer.to_string(),
        "signature": hex(&certificate.signature),
    });
    match certificate.statement {
        Statement::Route { via, scope } => {
            (fields["type"], fields["via"]) = (json!("route"), json!(via.to_string()));
            match scope {
                Scope::Any => {}
                Scope::Several => fields["several"] = json!(true),
                Scope::Destination(name) => fields["destination"] = json!(name.to_string()),
                Scope::ByNeighbour { up_to } => {
                    fields["type"] = json!("export");
                    fields["several"] = json!(true);
                    fields["up_to"] = json!(up_to.map(|name| name.to_string()));
                }
                Scope::ByDomain { up_to } => {
                    fields["type"] = json!("export");
                    fields["up_to"] = json!(up_to.map(|name| name.to_string()));
                }
            }
        }
        Statement::Locator(locator) => {
            let address: std::net::SocketAddr = Locator::address(locator);
            fields["type"] = json!("locator");
            fields["ip"] = json!(address.ip().to_string());
            fields["port"] = json!(address.port());
        }
        Statement::Withdrawal => fields["type"] = json!("withdrawal"),
        Statement::Absence { subject } => {
            (fields["type"], fields["subject"]) = (json!("absence"), json!(subject.to_string()));
        }
        Statement::Service { server, several } => {
            (fields["type"], fields["server"]) = (json!("service"), json!(server.to_string()));
            if several {
                fields["several"] = json!(true);
            }
        }
        Statement::Member { member, rights, limits } => {
            (fields["type"], fields["member"]) = (json!("member"), json!(member.to_string()));
            fields["rights"] = json!(rights.names().collect::<Vec<_>>());
            fields["limits"] = limits_of(&limits);
        }
        Statement::Removal { member } => {
            (fields["type"], fields["member"]) = (json!("removal"), json!(member.to_string()));
        }
    }
    fields
}

fn limits_of(limits: &Limits) -> Value {
    json!({
        "names": limits.names,
        "kbit_per_s": limits.kbit_per_s,
        "inside_only": limits.inside_only,
        "only_to": limits.only_to.map(|name| name.to_string()),
    })
}

const P256_SIGNATURE: [u8; SIGNATURE_LEN] = [
    0xd3, 0x8e, 0x7b, 0x57, 0x52, 0xef, 0x8d, 0xbc, 0xf8, 0xe4, 0x3f, 0xe8, 0x7c, 0x15, 0x84, 0xd1,
    0x5b, 0xf4, 0x79, 0x73, 0x21, 0x14, 0x10, 0xe7, 0xa7, 0x5e, 0xe3, 0xdb, 0xa8, 0x6d, 0x1d, 0x01,
    0x91, 0xc0, 0x97, 0x80, 0x30, 0x5f, 0x02, 0x94, 0xcc, 0x7f, 0x64, 0x49, 0xc6, 0x54, 0x21, 0x9a,
    0xa2, 0xf2, 0x62, 0x25, 0x68, 0xcb, 0x61, 0x84, 0x95, 0x7e, 0x10, 0xd9, 0xff, 0xb2, 0xea, 0x59,
];
