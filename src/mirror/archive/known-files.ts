import type { KnownContent } from '../file-work/entry-file.ts';

/** What is known of a file of an archive before that comes. */
export interface KnownFile {
  readonly path: string;
  /** The time that it is to have, in milliseconds since the epoch; null where the archive tells it. */
  readonly timeMs: number | null;
  /** The content of the published file, which may stay where it is the same; null for none. */
  readonly content: KnownContent | null;
}

/** Known files in columns: as objects it would take longer to hand them to a thread. What is not known of a file is NaN. */
export interface KnownColumns {
  /** A line each. */
  readonly paths: string;
  readonly timesMs: Float64Array;
  readonly sizesBytes: Float64Array;
  readonly crc32s: Float64Array;
  readonly digests: Uint8Array;
}

const DIGEST_BYTES = 32;
const NO_DIGEST = '00'.repeat(DIGEST_BYTES);

/** Puts known files into columns. */
export function knownColumns(files: readonly KnownFile[]): KnownColumns {
  const digests = files.map(({ content }) => content?.sha256 ?? NO_DIGEST);
  return {
    paths: files.map(({ path }) => path).join('\n'),
    timesMs: Float64Array.from(files, ({ timeMs }) => timeMs ?? NaN),
    sizesBytes: Float64Array.from(files, ({ content }) => content?.sizeBytes ?? NaN),
    crc32s: Float64Array.from(files, ({ content }) => content?.crc32 ?? NaN),
    digests: new Uint8Array(Buffer.from(digests.join(''), 'hex')),
  };
}

/** Finds the known files of entries. */
export class KnownFiles {
  readonly #columns: KnownColumns;
  readonly #paths: readonly string[];
  readonly #places: ReadonlyMap<string, number>;

  constructor(columns: KnownColumns) {
    this.#columns = columns;
    this.#paths = columns.paths === '' ? [] : columns.paths.split('\n');
    this.#places = new Map(this.#paths.map((path, place) => [path, place]));
  }

  /**
   * Finds the file of an entry's path, with the archive's leading folder or without: which of the two is right is known when all names
   * are, and checked then.
   */
  find(path: string): KnownFile | null {
    if (this.#paths.length === 0) return null;
    const place = this.#places.get(path) ?? this.#places.get(path.slice(path.indexOf('/') + 1));
    const found = place === undefined ? undefined : this.#paths[place];
    return place === undefined || found === undefined ? null : this.#at(place, found);
  }

  #at(place: number, path: string): KnownFile {
    const { timesMs, sizesBytes, crc32s, digests } = this.#columns;
    const sizeBytes = numberIn(sizesBytes, place);
    const timeMs = numberIn(timesMs, place);
    if (sizeBytes === null) return { path, timeMs, content: null };
    const digest = digests.subarray(place * DIGEST_BYTES, (place + 1) * DIGEST_BYTES);
    const sha256 = Buffer.from(digest).toString('hex');
    return { path, timeMs, content: { sizeBytes, crc32: numberIn(crc32s, place), sha256 } };
  }
}

function numberIn(column: Float64Array, place: number): number | null {
  const number = column[place] ?? NaN;
  return Number.isNaN(number) ? null : number;
}
