import { closeSync, openSync, writeSync } from 'node:fs';
import { crc32, deflateRawSync } from 'node:zlib';

/**
 * How a file lies in an archive: as it is, deflated, or deflated without effect, as zlib leaves bytes that do not
 * compress. The first and the last keep their length when the bytes change.
 */
export type Packing = 'stored' | 'deflated' | 'wrapped';

/** A file that goes into an archive. */
export interface Packable {
  readonly path: string;
  readonly packing: Packing;
  readonly content: Buffer;
  /** Milliseconds since the epoch; archives hold even seconds. */
  readonly modifiedAtMs: number;
}

/** Where an entry lies in an archive file, in bytes from its start. */
export interface EntryPlace {
  readonly local: number;
  readonly data: number;
  readonly central: number;
}

const LOCAL_BYTES = 30;
const FLUSH_BYTES = 4 * 1024 * 1024;
const MOST_ENTRIES_OF_ZIP32 = 0xff_fe;

/** Writes an archive (APPNOTE 6.3.10, section 4.3) file by file. @returns the place of each entry, in the order given */
export function writeArchive(archivePath: string, files: Iterable<Packable>): EntryPlace[] {
  const output = createOutput(archivePath);
  try {
    const entries: Array<{ local: number; data: number; name: Buffer; header: Buffer }> = [];
    for (const file of files) {
      const name = Buffer.from(file.path);
      const packed = pack(file);
      const header = commonHeader(file, packed.length, name.length);
      const local = output.position();
      output.write(Buffer.concat([uint32(0x04_03_4b_50), header, name]));
      entries.push({ local, data: local + LOCAL_BYTES + name.length, name, header });
      output.write(packed);
    }
    const start = output.position();
    const places = entries.map(({ local, data, name, header }) => {
      const central = output.position();
      const tail = Buffer.alloc(14);
      tail.writeUInt32LE((0o100_644 << 16) >>> 0, 6);
      tail.writeUInt32LE(local, 10);
      output.write(Buffer.concat([uint32(0x02_01_4b_50), Buffer.from([20, 3]), header, tail, name]));
      return { local, data, central };
    });
    output.write(endOf(places.length, start, output.position() - start));
    return places;
  } finally {
    output.close();
  }
}

/** Replaces the bytes of an entry in place; its packing must keep their length. */
export function replaceEntry(archivePath: string, place: EntryPlace, file: Packable): void {
  const packed = pack(file);
  const header = commonHeader(file, packed.length, 0);
  const fd = openSync(archivePath, 'r+');
  try {
    // Time, date and CRC-32 stand together, in the local header as in the directory (APPNOTE, sections 4.3.7 and 4.3.12).
    writeSync(fd, header, 6, 8, place.local + 4 + 6);
    writeSync(fd, packed, 0, packed.length, place.data);
    writeSync(fd, header, 6, 8, place.central + 6 + 6);
  } finally {
    closeSync(fd);
  }
}

function pack({ packing, content }: Packable): Buffer {
  if (packing === 'stored') return content;
  return deflateRawSync(content, { level: packing === 'wrapped' ? 0 : 6 });
}

/** What the local header and the directory have in common, from "version needed" to the length of the extra field. */
function commonHeader(
  { packing, content, modifiedAtMs }: Packable,
  packedBytes: number,
  nameBytes: number,
): Buffer {
  const header = Buffer.alloc(26);
  const at = new Date(modifiedAtMs);
  header.writeUInt16LE(20, 0);
  header.writeUInt16LE(packing === 'stored' ? 0 : 8, 4);
  header.writeUInt16LE((at.getUTCHours() << 11) | (at.getUTCMinutes() << 5) | (at.getUTCSeconds() >> 1), 6);
  header.writeUInt16LE(
    ((at.getUTCFullYear() - 1980) << 9) | ((at.getUTCMonth() + 1) << 5) | at.getUTCDate(),
    8,
  );
  header.writeUInt32LE(crc32(content), 10);
  header.writeUInt32LE(packedBytes, 14);
  header.writeUInt32LE(content.length, 18);
  header.writeUInt16LE(nameBytes, 22);
  return header;
}

function endOf(count: number, start: number, sizeBytes: number): Buffer {
  const end = Buffer.alloc(22);
  const isLarge = count > MOST_ENTRIES_OF_ZIP32;
  end.writeUInt32LE(0x06_05_4b_50, 0);
  end.writeUInt16LE(isLarge ? 0xff_ff : count, 8);
  end.writeUInt16LE(isLarge ? 0xff_ff : count, 10);
  end.writeUInt32LE(sizeBytes, 12);
  end.writeUInt32LE(start, 16);
  if (!isLarge) return end;
  const record = Buffer.alloc(56);
  record.writeUInt32LE(0x06_06_4b_50, 0);
  record.writeBigUInt64LE(44n, 4);
  record.writeUInt16LE(45, 12);
  record.writeUInt16LE(45, 14);
  record.writeBigUInt64LE(BigInt(count), 24);
  record.writeBigUInt64LE(BigInt(count), 32);
  record.writeBigUInt64LE(BigInt(sizeBytes), 40);
  record.writeBigUInt64LE(BigInt(start), 48);
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(0x07_06_4b_50, 0);
  locator.writeBigUInt64LE(BigInt(start + sizeBytes), 8);
  locator.writeUInt32LE(1, 16);
  return Buffer.concat([record, locator, end]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

interface Output {
  readonly position: () => number;
  readonly write: (bytes: Buffer) => void;
  readonly close: () => void;
}

/** A file that is written in large pieces. */
function createOutput(path: string): Output {
  const fd = openSync(path, 'w');
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  let position = 0;
  const flush = (): void => {
    const bytes = Buffer.concat(pending);
    for (let done = 0; done < bytes.length;) done += writeSync(fd, bytes, done);
    pending = [];
    pendingBytes = 0;
  };
  return {
    position: () => position,
    write: (bytes) => {
      pending.push(bytes);
      pendingBytes += bytes.length;
      position += bytes.length;
      if (pendingBytes >= FLUSH_BYTES) flush();
    },
    close: () => {
      flush();
      closeSync(fd);
    },
  };
}
