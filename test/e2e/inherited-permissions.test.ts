import { spawnSync } from 'node:child_process';

import { describe, expect, it } from 'vitest';

import { startService } from '../support/mounts.ts';

const isRoot = process.getuid?.() === 0;
const hasAcl = spawnSync('sh', ['-c', 'command -v setfacl && command -v getfacl']).status === 0;

/** The daemon, a reader with access only by an ACL, and a group of readers. */
const [DAEMON, READER, GROUP] = [65_533, 65_500, 65_400];

/** Every way to publish, and how many files change in one step; with two, `auto` exchanges trees as `exchange` does. */
const WAYS: readonly (readonly [mode: string, changes: number])[] = [
  ['auto', 1],
  ['auto', 2],
  ['rename', 2],
  ['link', 1],
];

/**
 * Mirrors, runs a script of the administrator, and mirrors again: as an ordinary user if the tests run as root.
 * @param groups of that user
 * @returns the output of a last script
 */
async function publishTwice(
  [mode, changes]: (typeof WAYS)[number],
  groups: string,
  administer: string,
  look: string,
): Promise<string> {
  const { service, shell } = await startService();
  const user = isRoot ? `setpriv --reuid ${DAEMON} --regid ${DAEMON} --groups ${groups}` : '';
  const sync = `umask 027; ${user} $PROGRAM sync -q --publish ${mode}`;
  const first = await shell(`${isRoot ? `chown ${DAEMON}:${DAEMON} $D/m` : ''}; ${sync} && (${administer})`);
  expect(first).toEqual({ exitCode: 0, text: '' });
  const repository = service.named();
  for (let index = 0; index < changes; index += 1)
    service.write(repository, 'main', `folder ${index}/book.xlsx`, 'another one');
  service.addRepository('D', { 'new/book.xlsx': 'a new tree' });
  const second = await shell(`${sync} && (${look})`);
  expect(second.exitCode, second.text).toBe(0);
  return second.text;
}

describe.runIf(hasAcl)('a default ACL for a reader', () => {
  it.each(WAYS)('is inherited by files published by %s, %i at a time', async (...way) => {
    const text = await publishTwice(
      way,
      String(DAEMON),
      `for each in mirror manifests trees; do [ ! -e $D/m/$each ] || setfacl -R -m u:${READER}:rX,d:u:${READER}:rX $D/m/$each; done`,
      'getfacl -pR $(realpath $D/m/mirror/A/main $D/m/mirror/D/main) $D/m/manifests/A $D/m/manifests/D 2>&1',
    );
    const entries = text.trim().split('\n\n');
    expect(entries.length).toBeGreaterThan(8);
    expect(entries.filter((entry) => !entry.includes(`\nuser:${READER}:r`))).toEqual([]);
  });

  it('on only one tree is inherited by the tree that replaces it', async () => {
    const text = await publishTwice(
      ['exchange', 1],
      String(DAEMON),
      `setfacl -R -m u:${READER}:rX,d:u:${READER}:rX $D/m/mirror/A/main`,
      'getfacl -cp "$D/m/mirror/A/main/folder 0" "$D/m/mirror/A/main/folder 0/book.xlsx"; echo; getfacl -cp $D/m/mirror/D/main',
    );
    expect(text.split('\n\n').map((entry) => entry.includes(`user:${READER}:r`))).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });
});

describe.runIf(isRoot)('a set-group-ID bit for a group', () => {
  const cases = [DAEMON, `${DAEMON},${GROUP}`].flatMap((groups) =>
    WAYS.map(([mode, changes]) => ({ mode, changes, groups: String(groups) })),
  );
  it.each(cases)(
    'is handed on to what is published by $mode, $changes at a time, where the daemon is of the groups $groups',
    async ({ mode, changes, groups }) => {
      const text = await publishTwice(
        [mode, changes],
        groups,
        `chgrp -R ${GROUP} $D/m/mirror && find $D/m/mirror -type d -exec chmod g+s {} +
         [ ! -e $D/m/trees ] || { chgrp -R ${GROUP} $D/m/trees && find $D/m/trees -type d -exec chmod g+s {} +; }`,
        `find $(realpath $D/m/mirror/A/main $D/m/mirror/D/main) \\( ! -group ${GROUP} -o -type d ! -perm -2000 -o -name '.workbook*' \\)`,
      );
      expect(text).toBe('');
    },
  );
});
