import { describe, expect, it } from 'vitest';

import { type RawZipEntry, rawZip } from '../../../support/fake-service.ts';
import { readZip } from '../../../support/unpacked.ts';

const UTF8 = 0x800;

describe('an archive is refused', () => {
  const file = (name: string | Buffer, more: Partial<RawZipEntry> = {}): RawZipEntry => ({
    name,
    data: 'x',
    ...more,
  });
  const refused: readonly [string, readonly RawZipEntry[]][] = [
    ['for a name that leads up', [file('../x')]],
    ['for a name that leads up further in', [file('a/../../x')]],
    ['for a name that leads up at its end', [file('a/..')]],
    ['for a folder that leads up', [file('../')]],
    ['for a name that leads up behind a dot', [file('./../x')]],
    ['for an absolute name behind a dot', [file('.//etc/passwd')]],
    ['for a name that is another one without its dots', [file('a/x'), file('./a/./x')]],
    ['for an absolute name', [file('/etc/passwd')]],
    ['for a folder at the root', [file('/')]],
    ['for an absolute name of Windows', [file('C:/x')]],
    ['for a relative name of a drive', [file('C:')]],
    ['for a backslash', [file('a\\b')]],
    ['for a name that leads up with backslashes', [file('..\\x')]],
    ['for an empty folder name', [file('a//x')]],
    ['for an empty name', [file('')]],
    ['for a zero byte', [file('a\u0000b')]],
    ['for a line break', [file('a\nb')]],
    ['for a name over 255 bytes', [file('ä'.repeat(128))]],
    ['for a path longer than a system takes', [file(`${'d'.repeat(200)}/`.repeat(25) + 'x')]],
    ['for a name that is not the UTF-8 that it claims', [file(Buffer.from([0x61, 0xff]), { flags: UTF8 })]],
    ['for a name that occurs twice', [file('a'), file('a')]],
    ['for a name that is a file and a folder', [file('a'), file('a/b')]],
    ['for a name that is a file and a folder, the folder first', [file('a/b/c'), file('a/b')]],
    ['for a file whose name has a folder entry, too', [file('a/', { data: '' }), file('a')]],
    ['for encryption', [file('a', { flags: 1, method: 8 })]],
    ['for encryption of a stored file', [file('a', { data: Buffer.alloc(13), flags: 1, size: 1 })]],
    ['for strong encryption', [file('a', { flags: 0x41, method: 8 })]],
    ['for bzip2', [file('a', { method: 12 })]],
    ['for an unknown method', [file('a', { method: 99 })]],
    ['for one bad entry among good ones', [file('a'), file('b'), file('../c'), file('d')]],
  ];
  it.each(refused)('%s', async (_name, entries) => {
    await expect(readZip(rawZip(entries))).rejects.toMatchObject({
      code: 'archive.refused',
      action: 'quarantine',
    });
  });
});

describe('of an archive are left out and named', () => {
  it.each([
    ['symbolic links', 0o120777, 'symbolic-link'],
    ['pipes', 0o010644, 'special-file'],
    ['devices', 0o020644, 'special-file'],
    ['block devices', 0o060644, 'special-file'],
    ['sockets', 0o140644, 'special-file'],
  ])('%s', async (_name, mode, reason) => {
    const zip = rawZip([
      { name: 'x', data: reason === 'symbolic-link' ? '/etc/passwd' : '', mode },
      { name: 'y', data: 'y' },
    ]);
    const archive = await readZip(zip);
    expect(archive.skipped).toStrictEqual([{ path: 'x', reason }]);
    expect(archive.entries.map(({ path }) => path)).toStrictEqual(['y']);
  });
});

describe('a name in an archive is read', () => {
  const names: readonly [string, Buffer, number, string][] = [
    ['as UTF-8 with the flag', Buffer.from('größe.xlsx'), UTF8, 'größe.xlsx'],
    ['as UTF-8 without the flag', Buffer.from('größe €.xlsx'), 0, 'größe €.xlsx'],
    ['as code page 437 where it is no UTF-8', Buffer.from([0x67, 0x72, 0x94, 0xe1, 0x65]), 0, 'größe'],
    ['without being composed', Buffer.from('gro\u0308ße'), UTF8, 'gro\u0308ße'],
    ['with a byte order mark', Buffer.from('\uFEFFa'), UTF8, '\uFEFFa'],
    ['with spaces and dots at its ends', Buffer.from(' a. '), 0, ' a. '],
    ['with names that Windows reserves', Buffer.from('CON/nul.txt'), 0, 'CON/nul.txt'],
    ['with a colon that is no drive', Buffer.from('a:b/12:30.txt'), 0, 'a:b/12:30.txt'],
    ['with 255 bytes', Buffer.from('n'.repeat(255)), 0, 'n'.repeat(255)],
  ];
  it.each(names)('%s', async (_name, raw, flags, expected) => {
    const { files } = await readZip(rawZip([{ name: raw, data: 'x', flags }]));
    expect(files).toStrictEqual({ [expected]: Buffer.from('x') });
  });
});
