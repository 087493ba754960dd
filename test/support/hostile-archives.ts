import { crc32, deflateRawSync } from 'node:zlib';

import type { ArchiveLimits } from '../../src/mirror/archive/policy.ts';
import { DEFAULT_LIMITS } from './archive-limits.ts';
import {
  buildZip,
  descriptor,
  endRecord,
  extraField,
  type ZipEnd,
  type ZipEntry,
  zip64Extra,
} from './zip-builder.ts';

/** A unique file name: wherever it appears, something escaped. */
export const ESCAPED = 'workbook-mirror-escaped';

/** The limits of the corpus. */
export const CORPUS_LIMITS: ArchiveLimits = {
  ...DEFAULT_LIMITS,
  maxEntries: 200,
  maxUnpackedBytes: 1024 ** 3,
};

const GOOD: ZipEntry = { name: 'a.xlsx', data: 'good' };
const TEXT = 'some text '.repeat(50);
const PACKED = { data: TEXT, method: 8 };
const GREAT = { data: Buffer.alloc(9_000_000), method: 8 };
const HIDDEN = Buffer.from('hidden');
/** The content follows its sizes (APPNOTE 6.3.10, section 4.4.4, bit 3). */
const STREAMED = { data: TEXT, flags: 0x8 };
const LINK = 0o120777;
/** A field whose value is in the zip64 part of the extra data. */
const SATURATED = 0xffffffff;
const HUGE = 2n ** 60n;

type Case = readonly [string, readonly ZipEntry[], string, ZipEnd?];
/** An oddity of an entry, and its fields. */
type Odd = readonly [string, Partial<ZipEntry>];

function concat(...parts: readonly (string | Buffer)[]): Buffer {
  return Buffer.concat(parts.map((part) => Buffer.from(part)));
}

function entryNamed(name: string | Buffer, more: Partial<ZipEntry> = {}): ZipEntry {
  return { name, data: 'x', ...more };
}

/** Cases of one bad entry behind a good one. */
function behindGood(name: string | Buffer, shown: string, ...cases: readonly Odd[]): Case[] {
  return cases.map(([what, fields]) => [what, [GOOD, entryNamed(name, fields)], shown]);
}

const badNames: readonly string[] = [
  `../${ESCAPED}`,
  `../../../../../../../../${ESCAPED}`,
  `./../${ESCAPED}`,
  `a/../../${ESCAPED}`,
  `a/b/../../../${ESCAPED}`,
  `a.xlsx/../../${ESCAPED}`,
  'a/..',
  'a/../',
  `.//tmp/${ESCAPED}`,
  `a/./../../${ESCAPED}`,
  'a/.',
  '.',
  'a//b',
  'a//',
  '/',
  `/tmp/${ESCAPED}`,
  `//host/${ESCAPED}`,
  `///tmp/${ESCAPED}`,
  `C:/${ESCAPED}`,
  'c:',
  `..\\${ESCAPED}`,
  `C:\\${ESCAPED}`,
  `\\\\host\\${ESCAPED}`,
  `\\tmp\\${ESCAPED}`,
  `a\\..\\..\\${ESCAPED}`,
  `a/..\\../${ESCAPED}`,
  'a\u0000.xlsx',
  `a.xlsx\u0000/../${ESCAPED}`,
  'a\nb',
  'a\rb',
  '\u001B[2J',
  'a\u007F',
  'a\u0085',
  'a\u009Bb',
  'x'.repeat(256),
  `a/${'表'.repeat(86)}`,
  `${'d'.repeat(200)}/`.repeat(16) + 'x',
  '../'.repeat(2000) + ESCAPED,
  '',
];

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 20))
    .slice(1, -1)
    .replaceAll(/[\u007F-\u009F]/g, (unit) => `\\u{${unit.charCodeAt(0).toString(16).toUpperCase()}}`);
}

/** Names as bytes: under the flag of UTF-8 (section 4.4.4, bit 11), or in code page 437. */
const rawNames: readonly (readonly [string, string, number, string])[] = [
  ['invalid UTF-8 under the flag', '61ff62', 0x800, 'a\uFFFDb'],
  ['overlong UTF-8 dots under the flag', 'c0aec0ae2f78', 0x800, 'decoded'],
  ['a surrogate in UTF-8 under the flag', '61eda080', 0x800, 'decoded'],
  ['a control character in code page 437', '940a61', 0, 'control'],
  ['a backslash in code page 437', '945c61', 0, 'backslash'],
  ['traversal in code page 437', '2e2e2f94', 0, '../ö'],
];

function many(length: number, entryOf: (index: number) => ZipEntry): ZipEntry[] {
  return Array.from({ length }, (_, index) => entryOf(index));
}

const names: readonly Case[] = [
  ...badNames.flatMap((name) =>
    behindGood(name, shown(name), [`name ${JSON.stringify(name.slice(0, 60))}`, {}]),
  ),
  ...rawNames.flatMap(([what, name, flags, said]) =>
    behindGood(Buffer.from(name, 'hex'), said, [what, { flags }]),
  ),
  ...behindGood(`../${ESCAPED}`, ESCAPED, ['a link with a hostile name', { mode: LINK }]),
  ...behindGood(`/dev/${ESCAPED}`, ESCAPED, ['a device with a hostile name', { mode: 0o020666 }]),
  ...behindGood(`../${ESCAPED}/`, ESCAPED, ['a folder with a hostile name', { data: '', mode: 0o040755 }]),
];

const link = (name: string): ZipEntry => entryNamed(name, { data: '/tmp', mode: LINK });
const THROUGH = entryNamed(`out/${ESCAPED}`);

const structure: readonly Case[] = [
  ['a file through a link', [GOOD, link('out'), THROUGH], `out/${ESCAPED}`],
  ['a file through a link that comes later', [THROUGH, GOOD, link('out')], '"out"'],
  ['a file through a link of another case', [GOOD, link('Out'), THROUGH], '"out"'],
  ['a link through a link', [GOOD, link('p'), link('p/q')], 'p/q'],
  ['a file that replaces a link', [GOOD, link('out'), entryNamed('out')], '"out"'],
  ['a pipe that is a folder', [entryNamed('p', { mode: 0o010644 }), entryNamed('p/', { data: '' })], '"p"'],
  ['a name that occurs twice', [GOOD, entryNamed('a.xlsx')], 'a.xlsx'],
  ['a name that occurs twice, with one content', [GOOD, GOOD], 'a.xlsx'],
  ['a file that is a folder', [GOOD, entryNamed('a.xlsx/b')], 'a.xlsx'],
  ['a folder that is a file', [entryNamed('d/b'), GOOD, entryNamed('d')], '"d"'],
  ['names that differ in case', [GOOD, entryNamed('A.XLSX')], 'A.XLSX'],
  ['names that differ in Unicode form', [entryNamed('é'), entryNamed('e\u0301')], 'e\u0301'],
  ['names that differ in case far from ASCII', [entryNamed('straße'), entryNamed('STRASSE')], 'STRASSE'],
  ['folders that differ in case', [entryNamed('A/x'), entryNamed('a/y')], '"a"'],
  ['a folder with content', [GOOD, entryNamed('d/')], 'd/'],
  ['a folder by its mode with content', [GOOD, entryNamed('d', { mode: 0o040755 })], '"d"'],
];

const kinds: readonly Case[] = [
  ...behindGood(
    'odd',
    'odd',
    ['encryption', { flags: 1, method: 8 }],
    ['encryption of a stored file', { data: Buffer.alloc(13), flags: 1, size: 1 }],
    ['strong encryption', { flags: 0x41 }],
    ['strong encryption by its own bit alone', { flags: 0x40 }],
    ['masked headers', { flags: 0x2000 }],
    ['an encrypted link', { flags: 1, mode: LINK }],
    ['a patch', { flags: 0x20 }],
    ...[1, 6, 9, 12, 14, 93, 95, 97, 98, 99, 0xffff].map((method): Odd => [`method ${method}`, { method }]),
  ),
  ['several disks', [GOOD], 'several', { disk: 1 }],
  ['several disks by zip64', [GOOD], 'several', { zip64: { disks: 2 } }],
];

const bombs: readonly Case[] = [
  ['too many entries', many(201, (index) => entryNamed(`${index}`)), 'archive.maxEntries'],
  ['too many folders', many(3, (index) => entryNamed(`${index}/${'d/'.repeat(100)}x`)), 'archive.maxEntries'],
  ...behindGood(
    'big',
    'big',
    ['a claim of too many bytes', { method: 8, size: 0x7fffffff }],
    ['a claim of 2^60 bytes', { method: 8, central: { size: SATURATED, extra: zip64Extra(HUGE) } }],
  ),
  [
    'many claims that are too much together',
    many(9, (index) => entryNamed(`${index}`, { method: 8, size: 0x0fffffff })),
    'archive.maxUnpackedSize',
  ],
];

/** A directory entry for the content of the first one, under another name. */
const SHARING: ZipEntry = { name: 'k1', ...PACKED, isPhantom: true, offset: 0 };
const INNER: ZipEntry = { name: 'inner', data: TEXT };
const INNER_AT = 30 + 5;
const QUOTED = buildZip([INNER]).subarray(0, INNER_AT + TEXT.length);

const overlaps: readonly Case[] = [
  [
    'entries of one content, under other names',
    [{ name: 'k0', ...PACKED }, SHARING, { ...SHARING, name: 'k2' }],
    'k1',
  ],
  [
    'an entry within another',
    [
      { name: 'outer', data: QUOTED },
      { ...INNER, isPhantom: true, offset: INNER_AT },
    ],
    'outer',
  ],
  [
    'an entry that goes into the directory',
    [GOOD, { name: 'long', data: TEXT, compressedSize: TEXT.length + 10, size: TEXT.length + 10 }],
    'long',
  ],
];

const OWN_DESCRIPTOR = descriptor(crc32(TEXT), 500, 500);
const UNLISTED = entryNamed('hidden', { isHidden: true });
const lies: readonly Case[] = [
  ...behindGood('b.txt', 'b.txt', ['another name of the same length', { local: { name: 'b.exe' } }]),
  ...behindGood(
    'b',
    '"b"',
    ['another name at the content', { local: { name: `../${ESCAPED}` } }],
    ['a name that is longer at the content', { local: { name: 'bb' } }],
    ['a CRC that lies', { crc: 1 }],
    ['a CRC of a deflated entry that lies', { ...PACKED, crc: 1 }],
    ['a size that is too small', { ...PACKED, size: 7 }],
    ['a size of nothing', { ...PACKED, size: 0 }],
    ['a size that is too great', { ...PACKED, size: 5000 }],
    ['a great size that is too small', { ...GREAT, size: 5_000_000 }],
    ['a great size that is too great', { ...GREAT, size: 9_000_001 }],
    ['a stored size that differs', { data: TEXT, size: 20 }],
    ['a packed size that is too small', { ...PACKED, compressedSize: 5 }],
    ['a packed size beyond the end', { ...PACKED, compressedSize: 0x7fffffff }],
    ['a packed size of 2^60', { method: 8, central: { compressedSize: SATURATED, extra: zip64Extra(HUGE) } }],
    ['bytes behind the packed ones', { ...PACKED, packed: concat(deflateRawSync(TEXT), HIDDEN) }],
    [
      'bytes behind the packed ones of a great entry',
      { ...GREAT, packed: concat(deflateRawSync(GREAT.data), HIDDEN) },
    ],
    ['packed bytes that cannot be unpacked', { ...PACKED, packed: Buffer.alloc(40, 0xff) }],
    ['another size at the content', { local: { size: 5 } }],
    ['another packed size at the content', { local: { compressedSize: 5 } }],
    ['another CRC at the content', { local: { crc: 5 } }],
    ['another method at the content', { local: { method: 8 } }],
    ['encryption at the content only', { local: { flags: 1 } }],
    ['a place in the middle of something', { offset: 7 }],
    ['a place beyond the end', { offset: 1_000_000 }],
    ['a place at 2^60', { central: { extra: zip64Extra(HUGE) }, offset: SATURATED }],
    ['extra data that goes beyond its end', { extra: Buffer.from([1, 0, 200, 0]) }],
    ['zip64 sizes that are not there', { method: 8, central: { compressedSize: SATURATED } }],
    ['a data descriptor with another CRC', { ...STREAMED, behind: descriptor(1, 500, 500) }],
    ['a data descriptor with another size', { ...STREAMED, behind: descriptor(crc32(TEXT), 500, 501) }],
    ['no data descriptor', { ...STREAMED, local: { crc: 0, size: 0, compressedSize: 0 } }],
    ['a data descriptor that is not announced', { data: TEXT, behind: OWN_DESCRIPTOR }],
    ['a data descriptor with something behind it', { ...STREAMED, behind: concat(OWN_DESCRIPTOR, 'x') }],
  ),
  ['an entry that the directory does not have', [GOOD, UNLISTED], 'a.xlsx'],
  ['an entry that the directory does not have, at the start', [UNLISTED, GOOD], 'archive'],
  ['bytes between entries', [{ ...GOOD, behind: HIDDEN }, entryNamed('b')], 'a.xlsx'],
];

/** An end record of an empty archive, in the comment of an archive with one good entry. */
const HIDING_END = endRecord({}, 0, buildZip([GOOD]).length, 0);

const ends: readonly Case[] = [
  ['fewer entries than there are', [GOOD, entryNamed('b')], 'directory', { entryCount: 1 }],
  ['fewer than there are, one of them refused', [entryNamed('../x'), GOOD], 'directory', { entryCount: 1 }],
  ['more entries than there are', [GOOD, entryNamed('b')], 'directory', { entryCount: 3 }],
  ['65535 entries', [GOOD], 'directory', { entryCount: 0xffff }],
  ['2^60 entries', [GOOD], 'directory', { zip64: { entryCount: HUGE } }],
  ['two counts of entries', [GOOD], 'end record', { entriesHere: 0, entryCount: 1 }],
  ['no entries at all, although there are', [GOOD], 'directory', { entryCount: 0 }],
  ['another directory size', [GOOD], 'directory', { directorySize: 10 }],
  ['a directory of 4 GiB', [GOOD], 'directory', { directorySize: 0xffffffff }],
  ['a directory beyond the end', [GOOD], 'directory', { directoryOffset: 1_000_000 }],
  ['a directory at the start', [GOOD], 'directory', { directoryOffset: 0 }],
  ['zip64 with a directory at 2^60', [GOOD], 'directory', { zip64: { directoryOffset: HUGE } }],
  ['zip64 with a directory of 2^60', [GOOD], 'directory', { zip64: { directorySize: HUGE } }],
  ['zip64 records that contradict the short one', [GOOD], 'contradict', { zip64: {}, directoryOffset: 5 }],
  ['zip64 with a record elsewhere', [GOOD], 'contradict', { zip64: { recordOffset: 0n } }],
  ['zip64 with a record at 2^60', [GOOD], 'contradict', { zip64: { recordOffset: HUGE } }],
  ['zip64 with a record that is too long', [GOOD], 'contradict', { zip64: { recordSize: 2n ** 40n } }],
  ['something before the directory', [GOOD], 'a.xlsx', { between: HIDDEN }],
  ['something before it, with offsets to match', [GOOD], 'before', { before: Buffer.from('#!/bin/sh\n') }],
  ['an end record in the comment', [GOOD], 'behind', { comment: concat(endRecord({}, 0, 0, 0), 'x') }],
  ['a fitting end record in the comment', [GOOD], 'directory', { comment: endRecord({}, 0, 0, 0) }],
  ['a fitting end record in the comment that hides all entries', [GOOD], 'before', { comment: HIDING_END }],
];

const plain = buildZip([GOOD, entryNamed('b', { data: TEXT, method: 8 })]);
/** The length of the extra data of the second header. */
const FAR = Buffer.alloc(2, 0xff);
const whole: readonly (readonly [string, Buffer, string])[] = [
  ['one byte missing at the end', plain.subarray(0, -1), 'end record'],
  ['half of it missing', plain.subarray(0, plain.length / 2), 'end record'],
  ['the start missing', plain.subarray(10), 'directory'],
  ['the middle missing', concat(plain.subarray(0, 40), plain.subarray(60)), 'directory'],
  ['a header that goes beyond the end', concat(plain.subarray(0, 68), FAR, plain.subarray(70)), '"b"'],
  ['something behind it', concat(plain, 'trailing'), 'behind'],
  ['zeros behind it', concat(plain, Buffer.alloc(512)), 'behind'],
  ['much behind it', concat(plain, Buffer.alloc(200_000)), 'end record'],
  ['something before it', concat('prepended', plain), 'directory'],
  ['two archives', concat(plain, plain), 'directory'],
  ['JSON with an archive behind it', concat('{"error":"locked"}', plain), 'directory'],
  ['JSON', Buffer.from('{"error":"locked"}'), 'end record'],
  ['only zeros', Buffer.alloc(100_000), 'end record'],
  ['only a signature', Buffer.from('PK\u0003\u0004'), 'end record'],
  ['an end record only, that claims an entry', endRecord({}, 1, 0, 0), 'directory'],
];

function made<Verdict extends string>(cases: readonly Case[], verdict: Verdict) {
  return cases.map(([name, entries, names, end]) => ({
    name,
    bytes: buildZip(entries, end),
    verdict,
    names,
  }));
}

/** Every kind of archive that must not be published; `names` is a part of the message. */
export function hostileArchives() {
  const verdict = 'archive.damaged';
  return [
    ...made([...names, ...structure, ...kinds, ...bombs], 'archive.refused'),
    ...made([...overlaps, ...lies, ...ends], verdict),
    ...whole.map(([name, bytes, said]) => ({ name, bytes, verdict, names: said })),
  ];
}

/** Odd but legal names. */
const legalNames: readonly string[] = [
  '%2e%2e/x',
  'trailing. ',
  'CON',
  'nul.txt',
  'a:b',
  '\u202Egpj.xlsx',
  'a\u200Bb',
  '\uFEFFx',
  'שלום',
  'a\uFFFDb',
  '-rf',
  '~',
  '.git',
  '..a',
  'a..',
];

type OddArchive = readonly [string, Buffer, Readonly<Record<string, string>>];

function archiveOf(what: string, name: string, fields: Partial<ZipEntry> = {}): OddArchive {
  return [what, buildZip([entryNamed(name, fields)]), { [name]: 'x' }];
}

/** Odd but sound archives, with their files. */
export function oddArchives(): OddArchive[] {
  const saturated = { size: SATURATED, compressedSize: SATURATED, extra: zip64Extra(1n, 1n) };
  const nothing = { crc: 0, size: 0, compressedSize: 0 };
  // With the CRC-32 of the first name (APPNOTE 6.3.10, section 4.6.9).
  const secondName = Buffer.from('01f9efbe712e2e2f63', 'hex');
  const ofB: readonly Odd[] = [
    ['zip64 sizes', { central: saturated, local: saturated }],
    ['hard link data', { extra: extraField(0x000d, Buffer.from('............../etc/passwd')) }],
    ['a second name in an extra field', { extra: extraField(0x7075, secondName) }],
    ['setuid', { mode: 0o106777 }],
    ['a data descriptor', { flags: 0x8, local: nothing, behind: descriptor(crc32('x'), 1, 1) }],
    ['a data descriptor without signature', { flags: 0x8, behind: descriptor(crc32('x'), 1, 1, false) }],
  ];
  const folder = entryNamed('d/', { data: '' });
  const inner = buildZip([GOOD]);
  return [
    ...legalNames.map((name) => archiveOf(`named ${JSON.stringify(name)}`, name)),
    ...ofB.map(([what, fields]) => archiveOf(`with ${what}`, 'b', fields)),
    ['with nothing in it', buildZip([]), {}],
    ['with nothing in it, zip64', buildZip([], { zip64: {} }), {}],
    ['with a comment', buildZip([GOOD], { comment: Buffer.from('0123abc') }), { 'a.xlsx': 'good' }],
    ['zip64', buildZip([GOOD], { zip64: {} }), { 'a.xlsx': 'good' }],
    ['with an archive in it', buildZip([{ name: 'i', data: inner }]), { i: inner.toString('latin1') }],
    [
      'with its entries in another order',
      buildZip([{ ...GOOD, isHidden: true }, entryNamed('b'), { ...GOOD, isPhantom: true, offset: 0 }]),
      { 'a.xlsx': 'good', b: 'x' },
    ],
    ['with a folder named twice', buildZip([folder, folder, entryNamed('d/x')]), { 'd/x': 'x' }],
    [
      'with names that begin with ./',
      buildZip([entryNamed('./', { data: '', mode: 0o040755 }), entryNamed('./a'), entryNamed('./d/./b')]),
      { a: 'x', 'd/b': 'x' },
    ],
    [
      'with a file deflated to nothing',
      buildZip([{ name: 'b', method: 8, packed: Buffer.alloc(0) }]),
      { b: '' },
    ],
  ];
}
