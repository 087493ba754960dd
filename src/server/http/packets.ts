/** A flush packet (gitprotocol-common(5)). */
export const FLUSH = '0000';

const HEADER_BYTES = 4;
/** Longest packet, with its header (gitprotocol-common(5), "pkt-line"). */
const PACKET_LIMIT_BYTES = 65_520;
/** The first band of a side band holds what is meant for the program (gitprotocol-pack(5), "side-band-64k"). */
const DATA_BAND = 1;

/** A text as a packet: four hexadecimal digits of its whole length, then itself (gitprotocol-common(5), "pkt-line"). */
export function packetLine(text: string): string {
  return packetOf(Buffer.from(text)).toString('utf8');
}

/** As {@link packetLine}, for any bytes. */
export function packetOf(payload: Uint8Array): Buffer {
  const sizeBytes = payload.length + HEADER_BYTES;
  return Buffer.concat([Buffer.from(sizeBytes.toString(16).padStart(HEADER_BYTES, '0')), payload]);
}

/** Puts bytes into the packets of a side band, as many as they need. */
export function inSideBand(bytes: Uint8Array): Buffer {
  const roomBytes = PACKET_LIMIT_BYTES - HEADER_BYTES - 1;
  const packets: Buffer[] = [];
  for (let from = 0; from < bytes.length; from += roomBytes)
    packets.push(packetOf(Buffer.concat([Buffer.of(DATA_BAND), bytes.subarray(from, from + roomBytes)])));
  return Buffer.concat([...packets, Buffer.from(FLUSH)]);
}

/** Whole packets at the beginning of some bytes. */
export interface PacketsRead {
  readonly payloads: readonly Buffer[];
  /** Where the first packet begins that is not whole. */
  readonly end: number;
  /** Whether a flush packet, or what is no packet, begins there: none of these belong to what comes after it. */
  readonly isDone: boolean;
}

/** Reads packets as far as they are whole, at most to the first flush packet. */
export function readPackets(bytes: Buffer, from: number): PacketsRead {
  const payloads: Buffer[] = [];
  let end = from;
  while (bytes.length - end >= HEADER_BYTES) {
    const header = bytes.toString('latin1', end, end + HEADER_BYTES);
    const sizeBytes = /^[0-9a-f]{4}$/i.test(header) ? Number.parseInt(header, 16) : 0;
    if (sizeBytes < HEADER_BYTES) return { payloads, end, isDone: true };
    if (bytes.length - end < sizeBytes) break;
    payloads.push(bytes.subarray(end + HEADER_BYTES, end + sizeBytes));
    end += sizeBytes;
  }
  return { payloads, end, isDone: false };
}
