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

/** An archive that must not be published. */
export interface HostileArchive {
  readonly name: string;
  readonly bytes: Buffer;
  readonly verdict: 'archive.refused' | 'archive.damaged';
  /** A part of the message. */
  readonly names: string;
}

const GOOD: ZipEntry = { name: 'a.xlsx', data: 'good' };
const TEXT = 'some text '.repeat(50);
const UTF8 = 0x800;
const BIT3 = 0x8;

type Case = readonly [string, readonly ZipEntry[], string, ZipEnd?];

function entryNamed(name: string | Buffer, more: Partial<ZipEntry> = {}): ZipEntry {
  return { name, data: 'x', ...more };
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
  '..',
  '../',
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

const names: readonly Case[] = [
  ...badNames.map((name): Case => [
    `name ${JSON.stringify(name.slice(0, 60))}`,
    [GOOD, entryNamed(name)],
    shown(name),
  ]),
  [
    'invalid UTF-8 under the flag',
    [GOOD, entryNamed(Buffer.from([0x61, 0xff, 0x62]), { flags: UTF8 })],
    'a\uFFFDb',
  ],
  [
    'overlong UTF-8 dots under the flag',
    [GOOD, entryNamed(Buffer.from([0xc0, 0xae, 0xc0, 0xae, 0x2f, 0x78]), { flags: UTF8 })],
    'decoded',
  ],
  [
    'a surrogate in UTF-8 under the flag',
    [GOOD, entryNamed(Buffer.from([0x61, 0xed, 0xa0, 0x80]), { flags: UTF8 })],
    'decoded',
  ],
  ['a control character in code page 437', [GOOD, entryNamed(Buffer.from([0x94, 0x0a, 0x61]))], 'control'],
  ['a backslash in code page 437', [GOOD, entryNamed(Buffer.from([0x94, 0x5c, 0x61]))], 'backslash'],
  ['traversal in code page 437', [GOOD, entryNamed(Buffer.from([0x2e, 0x2e, 0x2f, 0x94]))], '../ö'],
  [
    'the first of many bad names',
    [GOOD, ...Array.from({ length: 40 }, (_, index) => entryNamed(`../${index}`))],
    'So are 35 others',
  ],
  ['a link with a hostile name', [GOOD, entryNamed(`../${ESCAPED}`, { mode: 0o120777 })], ESCAPED],
  ['a device with a hostile name', [GOOD, entryNamed(`/dev/${ESCAPED}`, { mode: 0o020666 })], ESCAPED],
  [
    'a folder with a hostile name',
    [GOOD, entryNamed(`../${ESCAPED}/`, { data: '', mode: 0o040755 })],
    ESCAPED,
  ],
];

const structure: readonly Case[] = [
  [
    'a file through a link',
    [GOOD, entryNamed('out', { data: '/tmp', mode: 0o120777 }), entryNamed(`out/${ESCAPED}`)],
    `out/${ESCAPED}`,
  ],
  [
    'a file through a link that comes later',
    [entryNamed(`out/${ESCAPED}`), GOOD, entryNamed('out', { data: '/tmp', mode: 0o120777 })],
    '"out"',
  ],
  [
    'a file through a link of another case',
    [GOOD, entryNamed('Out', { data: '/tmp', mode: 0o120777 }), entryNamed(`out/${ESCAPED}`)],
    '"out"',
  ],
  [
    'a link through a link',
    [GOOD, entryNamed('p', { mode: 0o120777 }), entryNamed('p/q', { mode: 0o120777 })],
    'p/q',
  ],
  [
    'a file that replaces a link',
    [GOOD, entryNamed('out', { data: '/etc/passwd', mode: 0o120777 }), entryNamed('out')],
    '"out"',
  ],
  [
    'a pipe that is a folder',
    [GOOD, entryNamed('p', { mode: 0o010644 }), entryNamed('p/', { data: '' })],
    '"p"',
  ],
  ['a name that occurs twice', [GOOD, entryNamed('a.xlsx')], 'a.xlsx'],
  ['a name that occurs twice, with one content', [GOOD, GOOD], 'a.xlsx'],
  ['a file that is a folder', [GOOD, entryNamed('a.xlsx/b')], 'a.xlsx'],
  ['a folder that is a file', [entryNamed('d/b'), GOOD, entryNamed('d')], '"d"'],
  ['names that differ in case', [GOOD, entryNamed('A.XLSX')], 'A.XLSX'],
  ['names that differ in Unicode form', [entryNamed('é'), entryNamed('e\u0301')], 'e\u0301'],
  ['names that differ in case far from ASCII', [entryNamed('straße'), entryNamed('STRASSE')], 'STRASSE'],
  ['folders that differ in case', [entryNamed('A/x'), entryNamed('a/y')], '"a"'],
  ['a folder with content', [GOOD, entryNamed('d/', { data: 'hidden' })], 'd/'],
  ['a folder by its mode with content', [GOOD, entryNamed('d', { data: 'hidden', mode: 0o040755 })], '"d"'],
];

const kinds: readonly Case[] = [
  ['encryption', [GOOD, entryNamed('secret', { flags: 1, method: 8 })], 'secret'],
  [
    'encryption of a stored file',
    [GOOD, entryNamed('secret', { data: Buffer.alloc(13), flags: 1, size: 1 })],
    'secret',
  ],
  ['strong encryption', [GOOD, entryNamed('secret', { flags: 0x41 })], 'secret'],
  ['strong encryption by its own bit alone', [GOOD, entryNamed('secret', { flags: 0x40 })], 'secret'],
  ['masked headers', [GOOD, entryNamed('secret', { flags: 0x2000 })], 'secret'],
  ['an encrypted link', [GOOD, entryNamed('secret', { flags: 1, mode: 0o120777 })], 'secret'],
  ['a patch', [GOOD, entryNamed('patched', { flags: 0x20 })], 'patched'],
  ...[1, 6, 9, 12, 14, 93, 95, 97, 98, 99, 0xffff].map((method): Case => [
    `method ${method}`,
    [GOOD, entryNamed('odd', { method })],
    'odd',
  ]),
];

const multiDisk: readonly Case[] = [
  ['several disks', [GOOD], 'several', { disk: 1 }],
  ['several disks by zip64', [GOOD], 'several', { zip64: { disks: 2 } }],
];

const bombs: readonly Case[] = [
  [
    'too many entries',
    Array.from({ length: 201 }, (_, index) => entryNamed(`${index}`)),
    'archive.maxEntries',
  ],
  [
    'too many folders from few entries',
    [0, 1, 2].map((index) => entryNamed(`${index}/${'d/'.repeat(100)}x`)),
    'archive.maxEntries',
  ],
  ['a claim of too many bytes', [GOOD, entryNamed('big', { method: 8, size: 0x7fffffff })], 'big'],
  [
    'a claim of 2^60 bytes',
    [GOOD, entryNamed('big', { method: 8, central: { size: 0xffffffff, extra: zip64Extra(2n ** 60n) } })],
    'big',
  ],
  [
    'many claims that are too much together',
    Array.from({ length: 9 }, (_, index) => entryNamed(`${index}`, { method: 8, size: 0x0fffffff })),
    'archive.maxUnpackedSize',
  ],
];

/** A directory entry for the content of the first one, under another name. */
function sharing(name: string): ZipEntry {
  return { name, data: TEXT, method: 8, isPhantom: true, offset: 0 };
}

const overlaps: readonly Case[] = [
  [
    'entries of one content, under other names',
    [{ name: 'k0', data: TEXT, method: 8 }, sharing('k1'), sharing('k2')],
    'k1',
  ],
  ['an entry within another', withInner(), 'outer'],
  [
    'an entry that goes into the directory',
    [GOOD, { name: 'long', data: TEXT, compressedSize: TEXT.length + 10, size: TEXT.length + 10 }],
    'long',
  ],
];

/** An entry whose content contains the next header and content: a quoted overlap. */
function withInner(): ZipEntry[] {
  const inner: ZipEntry = { name: 'inner', data: TEXT };
  const header = buildZip([inner]).subarray(0, 30 + 5 + TEXT.length);
  return [
    { name: 'outer', data: header },
    { ...inner, isPhantom: true, offset: 30 + 5 },
  ];
}

const otherNames: readonly Case[] = [
  ['another name at the content', [GOOD, entryNamed('b', { local: { name: `../${ESCAPED}` } })], '"b"'],
  [
    'another name of the same length at the content',
    [GOOD, entryNamed('b.txt', { local: { name: 'b.exe' } })],
    'b.txt',
  ],
  ['a name that is longer at the content', [GOOD, entryNamed('b', { local: { name: 'bb' } })], '"b"'],
];

const lies: readonly Case[] = [
  ['a CRC that lies', [GOOD, entryNamed('b', { crc: 1 })], '"b"'],
  ['a CRC of a deflated entry that lies', [GOOD, entryNamed('b', { data: TEXT, method: 8, crc: 1 })], '"b"'],
  ['a size that is too small', [GOOD, entryNamed('b', { data: TEXT, method: 8, size: 7 })], '"b"'],
  ['a size of nothing', [GOOD, entryNamed('b', { data: TEXT, method: 8, size: 0 })], '"b"'],
  ['a size that is too great', [GOOD, entryNamed('b', { data: TEXT, method: 8, size: 5000 })], '"b"'],
  [
    'a great size that is too small',
    [GOOD, entryNamed('b', { data: Buffer.alloc(9_000_000), method: 8, size: 5_000_000 })],
    '"b"',
  ],
  [
    'a great size that is too great',
    [GOOD, entryNamed('b', { data: Buffer.alloc(9_000_000), method: 8, size: 9_000_001 })],
    '"b"',
  ],
  ['a stored size that differs', [GOOD, entryNamed('b', { data: TEXT, size: 20 })], '"b"'],
  [
    'a packed size that is too small',
    [GOOD, entryNamed('b', { data: TEXT, method: 8, compressedSize: 5 })],
    '"b"',
  ],
  [
    'a packed size beyond the end',
    [GOOD, entryNamed('b', { data: TEXT, method: 8, compressedSize: 0x7fffffff })],
    '"b"',
  ],
  [
    'a packed size of 2^60',
    [
      GOOD,
      entryNamed('b', { method: 8, central: { compressedSize: 0xffffffff, extra: zip64Extra(2n ** 60n) } }),
    ],
    '"b"',
  ],
  [
    'bytes behind the packed ones',
    [
      GOOD,
      entryNamed('b', {
        data: TEXT,
        method: 8,
        packed: Buffer.concat([deflateRawSync(TEXT), Buffer.from('hidden')]),
      }),
    ],
    '"b"',
  ],
  [
    'bytes behind the packed ones of a great entry',
    [
      GOOD,
      entryNamed('b', {
        data: Buffer.alloc(9_000_000),
        method: 8,
        packed: Buffer.concat([deflateRawSync(Buffer.alloc(9_000_000)), Buffer.from('hidden')]),
      }),
    ],
    '"b"',
  ],
  [
    'packed bytes that are none',
    [GOOD, entryNamed('b', { data: TEXT, method: 8, packed: Buffer.alloc(40, 0xff) })],
    '"b"',
  ],
  ['another size at the content', [GOOD, entryNamed('b', { local: { size: 5 } })], '"b"'],
  ['another packed size at the content', [GOOD, entryNamed('b', { local: { compressedSize: 5 } })], '"b"'],
  ['another CRC at the content', [GOOD, entryNamed('b', { local: { crc: 5 } })], '"b"'],
  ['another method at the content', [GOOD, entryNamed('b', { local: { method: 8 } })], '"b"'],
  ['encryption at the content only', [GOOD, entryNamed('b', { local: { flags: 1 } })], '"b"'],
  ['a place in the middle of something', [GOOD, entryNamed('b', { offset: 7 })], '"b"'],
  ['a place beyond the end', [GOOD, entryNamed('b', { offset: 1_000_000 })], '"b"'],
  [
    'a place at 2^60',
    [GOOD, entryNamed('b', { central: { extra: zip64Extra(2n ** 60n) }, offset: 0xffffffff })],
    '"b"',
  ],
  ['an entry that the directory does not have', [GOOD, entryNamed('hidden', { isHidden: true })], 'a.xlsx'],
  [
    'an entry that the directory does not have, at the start',
    [entryNamed('hidden', { isHidden: true }), GOOD],
    'archive',
  ],
  ['bytes between entries', [{ ...GOOD, behind: Buffer.from('hidden') }, entryNamed('b')], 'a.xlsx'],
  [
    'extra data that goes beyond its end',
    [GOOD, entryNamed('b', { extra: Buffer.from([1, 0, 200, 0]) })],
    '"b"',
  ],
  [
    'zip64 sizes that are not there',
    [GOOD, entryNamed('b', { method: 8, central: { compressedSize: 0xffffffff } })],
    '"b"',
  ],
  [
    'a data descriptor with another CRC',
    [GOOD, entryNamed('b', { data: TEXT, flags: BIT3, behind: descriptor(1, 500, 500) })],
    '"b"',
  ],
  [
    'a data descriptor with another size',
    [GOOD, entryNamed('b', { data: TEXT, flags: BIT3, behind: descriptor(crc32(TEXT), 500, 501) })],
    '"b"',
  ],
  [
    'a data descriptor that is not there',
    [GOOD, entryNamed('b', { data: TEXT, flags: BIT3, local: { crc: 0, size: 0, compressedSize: 0 } })],
    '"b"',
  ],
  [
    'a data descriptor that is not announced',
    [GOOD, entryNamed('b', { data: TEXT, behind: descriptor(crc32(TEXT), 500, 500) })],
    '"b"',
  ],
  [
    'a data descriptor with something behind it',
    [
      GOOD,
      entryNamed('b', {
        data: TEXT,
        flags: BIT3,
        behind: Buffer.concat([descriptor(crc32(TEXT), 500, 500), Buffer.from('x')]),
      }),
    ],
    '"b"',
  ],
];

const ends: readonly Case[] = [
  ['fewer entries than there are', [GOOD, entryNamed('b')], 'directory', { entryCount: 1 }],
  ['fewer than there are, one of them refused', [entryNamed('../x'), GOOD], 'directory', { entryCount: 1 }],
  ['more entries than there are', [GOOD, entryNamed('b')], 'directory', { entryCount: 3 }],
  ['65535 entries', [GOOD], 'directory', { entryCount: 0xffff }],
  ['2^60 entries', [GOOD], 'directory', { zip64: { entryCount: 2n ** 60n } }],
  ['two counts of entries', [GOOD], 'end record', { entriesHere: 0, entryCount: 1 }],
  ['no entries at all, although there are', [GOOD], 'directory', { entryCount: 0 }],
  ['another directory size', [GOOD], 'directory', { directorySize: 10 }],
  ['a directory of 4 GiB', [GOOD], 'directory', { directorySize: 0xffffffff }],
  ['a directory beyond the end', [GOOD], 'directory', { directoryOffset: 1_000_000 }],
  ['a directory at the start', [GOOD], 'directory', { directoryOffset: 0 }],
  ['zip64 with a directory at 2^60', [GOOD], 'directory', { zip64: { directoryOffset: 2n ** 60n } }],
  ['zip64 with a directory of 2^60', [GOOD], 'directory', { zip64: { directorySize: 2n ** 60n } }],
  ['zip64 records that contradict the short one', [GOOD], 'contradict', { zip64: {}, directoryOffset: 5 }],
  ['zip64 with a record elsewhere', [GOOD], 'contradict', { zip64: { recordOffset: 0n } }],
  ['zip64 with a record at 2^60', [GOOD], 'contradict', { zip64: { recordOffset: 2n ** 60n } }],
  ['zip64 with a record that is too long', [GOOD], 'contradict', { zip64: { recordSize: 2n ** 40n } }],
  ['something before the directory', [GOOD], 'a.xlsx', { between: Buffer.from('hidden') }],
  ['something before it, with offsets to match', [GOOD], 'before', { before: Buffer.from('#!/bin/sh\n') }],
  [
    'an end record in the comment',
    [GOOD],
    'behind',
    { comment: Buffer.concat([endRecord({}, 0, 0, 0), Buffer.from('x')]) },
  ],
  ['a fitting end record in the comment', [GOOD], 'directory', { comment: endRecord({}, 0, 0, 0) }],
  ['a fitting end record in the comment that hides all entries', [GOOD], 'before', { comment: hidingEnd() }],
];

/** An end record of an empty archive, in the comment of an archive with one good entry. */
function hidingEnd(): Buffer {
  return endRecord({}, 0, buildZip([GOOD]).length, 0);
}

const plain = buildZip([GOOD, entryNamed('b', { data: TEXT, method: 8 })]);
const whole: readonly (readonly [string, Buffer, string])[] = [
  ['one byte missing at the end', plain.subarray(0, -1), 'end record'],
  ['half of it missing', plain.subarray(0, plain.length / 2), 'end record'],
  ['the start missing', plain.subarray(10), 'directory'],
  ['the middle missing', Buffer.concat([plain.subarray(0, 40), plain.subarray(60)]), 'directory'],
  ['something behind it', Buffer.concat([plain, Buffer.from('trailing')]), 'behind'],
  ['zeros behind it', Buffer.concat([plain, Buffer.alloc(512)]), 'behind'],
  ['much behind it', Buffer.concat([plain, Buffer.alloc(200_000)]), 'end record'],
  ['something before it', Buffer.concat([Buffer.from('prepended'), plain]), 'directory'],
  ['two archives', Buffer.concat([plain, plain]), 'directory'],
  ['JSON with an archive behind it', Buffer.concat([Buffer.from('{"error":"locked"}'), plain]), 'directory'],
  ['JSON', Buffer.from('{"error":"locked"}'), 'end record'],
  ['only zeros', Buffer.alloc(100_000), 'end record'],
  ['only a signature', Buffer.from('PK\u0003\u0004'), 'end record'],
  ['an end record only, that claims an entry', endRecord({}, 1, 0, 0), 'directory'],
];

function made(cases: readonly Case[], verdict: HostileArchive['verdict']): HostileArchive[] {
  return cases.map(([name, entries, named, end]) => ({
    name,
    bytes: buildZip(entries, end),
    verdict,
    names: named,
  }));
}

/** Every kind of archive that must not be published. */
export function hostileArchives(): HostileArchive[] {
  return [
    ...made([...names, ...structure, ...kinds, ...multiDisk, ...bombs], 'archive.refused'),
    ...made([...overlaps, ...otherNames, ...lies, ...ends], 'archive.damaged'),
    ...whole.map(([name, bytes, named]): HostileArchive => ({
      name,
      bytes,
      verdict: 'archive.damaged',
      names: named,
    })),
  ];
}

/** Odd but sound archives, with their files. */
export function oddArchives(): (readonly [string, Buffer, Readonly<Record<string, string>>])[] {
  const bare = (name: string): Readonly<Record<string, string>> => ({ [name]: 'x' });
  const legal = [
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
  const inner = buildZip([GOOD]);
  return [
    ...legal.map(
      (name) => [`named ${JSON.stringify(name)}`, buildZip([entryNamed(name)]), bare(name)] as const,
    ),
    ['with nothing in it', buildZip([]), {}],
    ['with nothing in it, zip64', buildZip([], { zip64: {} }), {}],
    ['with a comment', buildZip([GOOD], { comment: Buffer.from('0123abc') }), { 'a.xlsx': 'good' }],
    ['zip64', buildZip([GOOD], { zip64: {} }), { 'a.xlsx': 'good' }],
    [
      'with zip64 sizes',
      buildZip([
        {
          name: 'b',
          data: 'x',
          central: { size: 0xffffffff, compressedSize: 0xffffffff, extra: zip64Extra(1n, 1n) },
          local: { size: 0xffffffff, compressedSize: 0xffffffff, extra: zip64Extra(1n, 1n) },
        },
      ]),
      bare('b'),
    ],
    [
      'with an archive in it',
      buildZip([{ name: 'in.zip', data: inner }]),
      { 'in.zip': inner.toString('latin1') },
    ],
    [
      'with hard link data',
      buildZip([entryNamed('b', { extra: extraField(0x000d, Buffer.from('............../etc/passwd')) })]),
      bare('b'),
    ],
    [
      'with a second name in an extra field',
      buildZip([
        entryNamed('b', {
          extra: extraField(0x7075, Buffer.concat([Buffer.from([1]), crcOf('b'), Buffer.from('../c')])),
        }),
      ]),
      bare('b'),
    ],
    ['with setuid', buildZip([entryNamed('b', { mode: 0o106777 })]), bare('b')],
    [
      'with its entries in another order',
      buildZip([{ ...GOOD, isHidden: true }, entryNamed('b'), { ...GOOD, isPhantom: true, offset: 0 }]),
      { 'a.xlsx': 'good', b: 'x' },
    ],
    [
      'with a data descriptor',
      buildZip([
        entryNamed('b', {
          flags: BIT3,
          local: { crc: 0, size: 0, compressedSize: 0 },
          behind: descriptor(crc32('x'), 1, 1),
        }),
      ]),
      bare('b'),
    ],
    [
      'with a data descriptor without signature',
      buildZip([entryNamed('b', { flags: BIT3, behind: descriptor(crc32('x'), 1, 1, false) })]),
      bare('b'),
    ],
    [
      'with a folder named twice',
      buildZip([entryNamed('d/', { data: '' }), entryNamed('d/', { data: '' }), entryNamed('d/x')]),
      bare('d/x'),
    ],
    [
      'with an empty file that is deflated to nothing',
      buildZip([{ name: 'b', method: 8, packed: Buffer.alloc(0) }]),
      { b: '' },
    ],
  ];
}

function crcOf(text: string): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(crc32(text));
  return bytes;
}
