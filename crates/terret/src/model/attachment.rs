//! Attachments of messages in bodies: pictures as base64, words for what a wire does not take.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use terret_core::chunk::Failure;
use terret_core::message::Attachment;

use super::Blobs;

/// The pictures every wire takes.
const PICTURES: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/webp"];

/// The bytes of a picture in base64; `None` for a kind no wire takes.
pub(super) fn base64(attachment: &Attachment, blobs: Blobs<'_>) -> Result<Option<String>, Failure> {
    if !PICTURES.contains(&attachment.media_type.as_str()) {
        return Ok(None);
    }
    blobs(&attachment.blob).map(|bytes| Some(STANDARD.encode(bytes)))
}

/// A picture as a URL that carries it.
pub(super) fn data_url(attachment: &Attachment, blobs: Blobs<'_>) -> Result<Option<String>, Failure> {
    let data = base64(attachment, blobs)?;
    Ok(data.map(|data| format!("data:{};base64,{data}", attachment.media_type)))
}

/// The words that stand for what is not sent.
pub(super) fn placeholder(what: &str, attachment: &Attachment) -> String {
    let name = attachment.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
    format!(
        "[{what}{name}: {}, {} bytes, blake3 {}]",
        attachment.media_type, attachment.bytes, attachment.blob
    )
}
