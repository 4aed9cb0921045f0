use anabranch_processing::wire::{
    Item, Label, ModuleLabel, Notice, Request, decode, encode, item::HEADER_BYTES_MAX, module,
};
use bytes::Bytes;

/// ADUs, marks and messages between a service and its peers are written as they were read, or refused; labels have one text.
pub fn processed(data: &[u8]) {
    let adu = Bytes::copy_from_slice(data);
    if let Ok(item) = Item::read(adu.clone()) {
        assert_eq!(item.to_bytes(), adu);
        match item {
            Item::Adu(carried) => {
                assert!(adu.len() <= HEADER_BYTES_MAX + carried.adu.body.len());
            }
            Item::Mark(position) => assert!(position.phases.is_some_and(|all| all.len() <= 16)),
        }
    }
    let json: Bytes = [&[0], data].concat().into();
    if let Ok(request) = decode::<Request>(&json) {
        match &request {
            Request::Offer(offer) => drop(offer.check()),
            Request::Subscribe(subscribe) => drop(subscribe.check()),
            _ => {}
        }
        assert_eq!(decode::<Request>(&encode(&request)), Ok(request));
    }
    if let Ok(notice) = decode::<Notice>(&json) {
        assert_eq!(decode::<Notice>(&encode(&notice)), Ok(notice));
    }
    let text = String::from_utf8_lossy(data);
    if let Ok(label) = text.parse::<Label>() {
        assert_eq!(label.to_string(), text);
    }
    if let Ok(label) = text.parse::<ModuleLabel>() {
        assert_eq!(label.to_string(), text);
        assert!(text.parse::<Label>().is_err());
    }
    if let Ok(module) = module::read(adu.clone()) {
        assert_eq!(module::to_adu(&module), adu);
    }
}
