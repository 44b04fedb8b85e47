/**
 * The first four bytes of a uwsgi packet, and of a spool file: u8 modifier1, u16le block size, u8 modifier2, then the block
 * (uwsgi.h, struct uwsgi_header). Only this file reads and writes them.
 */
export const HEADER_BYTES = 4
/** The size field is 16 bits wide, and so are the key and value lengths inside the block. */
export const MAX_BLOCK_BYTES = 0xffff
export const MAX_PACKET_BYTES = HEADER_BYTES + MAX_BLOCK_BYTES
/** The modifier1 of a spool request. */
export const SPOOL_MODIFIER = 17
/** The modifier1 of a uwsgi signal. */
export const SIGNAL_MODIFIER = 110
/** The modifier2 of a request that keeps the connection open. uWSGI ignores it. */
export const KEEP_OPEN = 1
/** The offset of modifier2: unused in uWSGI's spool files, our write-ahead mark (spool/state-byte). */
export const MODIFIER2_OFFSET = 3

/** All of these functions take a buffer of at least HEADER_BYTES. */
export function modifier1Of(packet: Uint8Array): number {
  return packet[0] ?? 0
}

export function blockBytesOf(packet: Uint8Array): number {
  return (packet[1] ?? 0) | ((packet[2] ?? 0) << 8)
}

/** The end of the block: in a spool file, the offset of the body. */
export function packetBytesOf(packet: Uint8Array): number {
  return HEADER_BYTES + blockBytesOf(packet)
}

export function modifier2Of(packet: Uint8Array): number {
  return packet[MODIFIER2_OFFSET] ?? 0
}

export function writeHeader(packet: Uint8Array, modifier1: number, blockBytes: number): void {
  packet[0] = modifier1
  packet[1] = blockBytes
  packet[2] = blockBytes >> 8
  packet[MODIFIER2_OFFSET] = 0
}
