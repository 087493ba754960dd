import { crc32, deflateSync } from 'node:zlib';

/** A picture as rows of pixels, four bytes each: red, green, blue, opacity. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly bytes: Uint8Array;
}

/** What a file says of itself. */
export interface PngFacts {
  readonly width: number;
  readonly height: number;
  /** The words that it was written with. */
  readonly words: string;
}

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');
const WORDS_KEY = 'Description\0\0\0\0\0';
const MOST_COLOURS = 256;
const BY_PALETTE = 3;

/**
 * A file of PNG with a palette, which takes less than half of what a browser writes: a page of flat colours has few of them, and the
 * edges of its letters do with the nearest (https://www.w3.org/TR/png-3/). Opacity is left out.
 * @param words what is to be read in the picture, for whoever wants to know without looking
 */
export function toPng({ width, height, bytes }: Pixels, words: string): Buffer {
  const { palette, indexOf } = paletteOf(bytes);
  // Each row begins with its filter: none.
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y += 1)
    for (let x = 0; x < width; x += 1)
      rows[y * (width + 1) + 1 + x] = indexOf.get(colourAt(bytes, (y * width + x) * 4)) ?? 0;
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, BY_PALETTE], 8);
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('iTXt', Buffer.from(WORDS_KEY + words)),
    chunk('PLTE', Buffer.from(palette.flatMap(partsOf))),
    chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

/** @throws Error where {@link toPng} did not write that */
export function readPng(file: Buffer): PngFacts {
  const chunks = new Map<string, Buffer>();
  if (!file.subarray(0, SIGNATURE.length).equals(SIGNATURE)) throw new Error('this is no PNG');
  for (let at = SIGNATURE.length; at < file.length;) {
    const end = at + 8 + file.readUInt32BE(at);
    if (crc32(file.subarray(at + 4, end)) !== file.readUInt32BE(end)) throw new Error('this PNG is damaged');
    chunks.set(file.toString('latin1', at + 4, at + 8), file.subarray(at + 8, end));
    at = end + 4;
  }
  const [header, words] = [chunks.get('IHDR'), chunks.get('iTXt')];
  if (header === undefined || words === undefined) throw new Error('this PNG does not say what it shows');
  return {
    width: header.readUInt32BE(0),
    height: header.readUInt32BE(4),
    words: words.toString('utf8').slice(WORDS_KEY.length),
  };
}

function chunk(kind: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(kind, 'latin1'), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}

function colourAt(bytes: Uint8Array, at: number): number {
  return ((bytes[at] ?? 0) << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0);
}

function partsOf(colour: number): [number, number, number] {
  return [colour >> 16, (colour >> 8) & 255, colour & 255];
}

/** The colours that most of the picture has, and which of them each colour becomes. */
function paletteOf(bytes: Uint8Array): {
  readonly palette: readonly number[];
  readonly indexOf: ReadonlyMap<number, number>;
} {
  const counts = new Map<number, number>();
  for (let at = 0; at < bytes.length; at += 4) {
    const colour = colourAt(bytes, at);
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const colours = [...counts].sort(([, one], [, other]) => other - one).map(([colour]) => colour);
  const palette = colours.slice(0, MOST_COLOURS);
  return { palette, indexOf: new Map(colours.map((colour) => [colour, nearest(palette, colour)])) };
}

function nearest(palette: readonly number[], colour: number): number {
  const [red, green, blue] = partsOf(colour);
  const distances = palette.map((other) => {
    const [r, g, b] = partsOf(other);
    return (red - r) ** 2 + (green - g) ** 2 + (blue - b) ** 2;
  });
  return distances.indexOf(Math.min(...distances));
}
