import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { canCutPower, CUTS, type Cut, JOURNALED, type JournaledKind, mountJournaled } from './mounts.ts';

const canUnshare = spawnSync('unshare', ['--mount', 'true']).status === 0;

for (const kind of Object.keys(JOURNALED) as JournaledKind[])
  describe.skipIf(!canCutPower(kind) || !canUnshare)(`a power cut of ${kind}`, () => {
    it.each(Object.keys(CUTS) as Cut[])(
      'is over for us while a program with mounts of its own keeps what has no power: %s',
      async (cut) => {
        const mounted = mountJournaled(kind);
        const file = join(mounted.folder, 'kept');
        await writeFile(file, 'flushed');
        mounted.flush();
        const keeper = spawn('unshare', ['--mount', 'sh', '-c', 'echo ready; exec sleep 60'], {
          stdio: ['ignore', 'pipe', 'inherit'],
        });
        try {
          await once(keeper.stdout, 'data');
          mounted.cutPower(cut);
          expect(await readFile(file, 'utf8')).toBe('flushed');
          await writeFile(file, 'written since');
        } finally {
          keeper.kill('SIGKILL');
          await once(keeper, 'close');
          await mounted.remove();
        }
      },
    );
  });
