import { DIRECTORY_ENTRY_BYTES, type DirectoryPlace, type ReadBytes, ZipFault } from './end-record.ts';
import { type EntryFacts, parseFacts } from './entry-facts.ts';

/** An entry of a zip's central directory: only the necessary facts, as there may be a million. */
export interface ZipEntry extends EntryFacts {
  /** The Unix file mode, or 0 if the archive has none. */
  readonly unixMode: number;
  readonly headerOffset: number;
}

/** A malformed entry of the directory, which ends the list of entries. */
export class ZipEntryFault extends ZipFault {
  /** The entry's name, as far as it is readable. */
  readonly entryName: string;

  constructor(entryName: string, message: string) {
    super(message);
    this.entryName = entryName;
  }
}

/** The longest entry: the fixed part, and a name, extra fields and a comment of 16 bits of length each. */
const MOST_ENTRY_BYTES = DIRECTORY_ENTRY_BYTES + 3 * 0xffff;

/**
 * Lists the central directory, which must be as long as its end record says.
 * @throws ZipFault; Error of the disk
 */
export function* entriesOf(
  read: ReadBytes,
  { offset, end, entryCount }: DirectoryPlace,
): Generator<ZipEntry, void> {
  let position = offset;
  for (let left = entryCount; left > 0; left -= 1) {
    if (position + DIRECTORY_ENTRY_BYTES > end) throw goesOn();
    const bytes = read(position, Math.min(MOST_ENTRY_BYTES, end - position));
    const entry = parseEntry(bytes);
    position += entryBytes(bytes);
    if (position > end) throw goesOn();
    yield entry;
  }
  if (position !== end)
    throw new ZipFault(`The archive's directory holds more than the ${entryCount} entries that are counted.`);
}

function goesOn(): ZipFault {
  return new ZipFault("The archive's directory extends past its end.");
}

function entryBytes(bytes: Buffer): number {
  const variableBytes = bytes.readUInt16LE(28) + bytes.readUInt16LE(30) + bytes.readUInt16LE(32);
  return DIRECTORY_ENTRY_BYTES + variableBytes;
}

const SIGNATURE = 0x02014b50;

/** Parses the entry at the start of some bytes (APPNOTE 6.3.10, section 4.3.12). @throws ZipFault */
function parseEntry(bytes: Buffer): ZipEntry {
  const [facts, numberAt] = parseFacts(bytes, 8, DIRECTORY_ENTRY_BYTES, (name, fault) => {
    throw new ZipEntryFault(name, fault);
  });
  const signature = bytes.readUInt32LE(0);
  if (signature !== SIGNATURE)
    throw new ZipEntryFault(
      facts.name,
      `invalid central directory file header signature: 0x${signature.toString(16)}`,
    );
  return { ...facts, unixMode: bytes.readUInt16LE(40), headerOffset: numberAt(42) };
}
