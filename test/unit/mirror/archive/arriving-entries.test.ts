import { randomBytes } from 'node:crypto';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { ArrivingEntries } from '../../../../src/mirror/archive/arriving-entries.ts';
import type { PackedEntry } from '../../../../src/mirror/file-work/tasks.ts';
import { buildZip, descriptor, type ZipEntry, zip64Extra } from '../../../support/zip-builder.ts';

/** What is told of an archive that comes in pieces. */
interface Told {
  readonly all: Buffer;
  readonly entries: readonly PackedEntry[];
  readonly contents: ReadonlyMap<PackedEntry, Buffer>;
}

function told(pieces: readonly Uint8Array[], isWanted: (entry: PackedEntry) => boolean = () => true): Told {
  const arriving = new ArrivingEntries();
  const all: Uint8Array[] = [];
  const contents = new Map<PackedEntry, Uint8Array[]>();
  const entries: PackedEntry[] = [];
  const ended = new Set<PackedEntry>();
  for (const piece of pieces) {
    const parts = arriving.split(piece);
    for (let answer = true, next = parts.next(answer); next.done !== true; next = parts.next(answer)) {
      const part = next.value;
      if (part.kind === 'entry') {
        entries.push(part.entry);
        answer = isWanted(part.entry);
        continue;
      }
      all.push(part.bytes);
      const entry = entries.at(-1);
      if (part.kind === 'kept' || entry === undefined) continue;
      expect(ended.has(entry)).toBe(false);
      if (part.isLast) ended.add(entry);
      contents.set(entry, [...(contents.get(entry) ?? []), part.bytes]);
    }
  }
  return {
    all: Buffer.concat(all),
    entries,
    contents: new Map([...contents].map(([entry, bytes]) => [entry, Buffer.concat(bytes)])),
  };
}

/** Cuts bytes at places. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1))), bytes.length];
  ends.sort((a, b) => a - b);
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

const DATA = [randomBytes(300), Buffer.from('deflated '.repeat(40)), Buffer.alloc(0), randomBytes(70)];

const SOUND: readonly ZipEntry[] = DATA.map((data, index) => ({
  name: `folder/${'name'.repeat(index * 100)}${index}`,
  data,
  method: index % 2 === 1 ? 8 : 0,
}));

describe('the entries of an archive that arrives', () => {
  it('are told with their contents, however it is cut', () => {
    const zip = buildZip(SOUND);
    const whole = told([zip]);
    expect(whole.entries.map(({ sizeBytes }) => sizeBytes)).toEqual([300, 360, 70]);
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 20 }), fc.nat(7), (places, wanted) => {
        const isWanted = ({ sizeBytes }: PackedEntry): boolean =>
          (wanted & (1 << [300, 360, 70].indexOf(sizeBytes))) !== 0;
        const { all, entries, contents } = told(cut(zip, places), isWanted);
        expect(all.equals(zip)).toBe(true);
        expect(entries).toEqual(whole.entries);
        expect([...contents.keys()]).toEqual(entries.filter(isWanted));
        for (const [{ dataOffset, compressedBytes }, bytes] of contents)
          expect(zip.subarray(dataOffset, dataOffset + compressedBytes).equals(bytes)).toBe(true);
      }),
    );
  });

  it('come byte by byte, too', () => {
    const zip = buildZip(SOUND);
    expect(told([...zip].map((byte) => Uint8Array.of(byte))).contents.size).toBe(3);
  });

  const [first, second] = SOUND;
  const data = DATA[0] ?? Buffer.alloc(0);
  it.each<[string, ZipEntry]>([
    ['says its length behind it', { name: 'a', data, flags: 8, behind: descriptor(1, 300, 300) }],
    ['is encrypted', { name: 'a', data, flags: 1 }],
    ['is packed in an unknown way', { name: 'a', data, method: 12 }],
    [
      'has its length in an extra field',
      {
        name: 'a',
        data,
        local: { compressedSize: 0xffffffff, size: 0xffffffff, extra: zip64Extra(300n, 300n) },
      },
    ],
  ])('are no longer told from one on that %s', (_what, odd) => {
    const zip = buildZip([first ?? odd, odd, second ?? odd]);
    const { all, entries } = told(cut(zip, [50, 400, 420]));
    expect(all.equals(zip)).toBe(true);
    expect(entries).toHaveLength(1);
  });

  it.each([
    ['a web page', Buffer.from('<html>'.repeat(100))],
    ['nothing', Buffer.alloc(0)],
    ['noise', randomBytes(5000)],
    ['an empty archive', buildZip([])],
  ])('are none in %s', (_what, bytes) => {
    expect(told([bytes])).toMatchObject({ all: bytes, entries: [] });
  });
});
