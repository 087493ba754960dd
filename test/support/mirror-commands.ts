import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect } from 'vitest';

import type { FakeKnobs } from './fake-service.ts';
import { startFake } from './started-fake.ts';
import { runHere } from './in-process.ts';
import { type Variables, variablesOf } from './program.ts';
import { temporaryFolder } from './temporary.ts';

/** A target of `status --json`, with the fields that tests need. */
export interface ShownTarget {
  readonly target: string;
  readonly state: string;
  readonly isStale: boolean;
  readonly verifiedAtMs: number | null;
}

/** A service, and the directory of its mirror. */
export type MirrorCommands = Awaited<ReturnType<typeof startCommands>>;

/** Starts a service for commands; it ends with the test. */
export async function startCommands(knobs: Partial<FakeKnobs> = {}) {
  const service = await startFake(knobs);
  const directory = join(await temporaryFolder(), 'mirrored');
  /** Runs a command. @param settings variables without the prefix, beside the usual ones: `DIRECTORY` */
  const command = (args: readonly string[], settings: Variables = {}) =>
    runHere(args, {
      ...service.settingsFor(directory),
      READER_GRACE: '0s',
      HTTP_LISTEN: 'off',
      ...settings,
    });
  /** The targets of `status`, by their paths. */
  const status = async (): Promise<Record<string, ShownTarget>> => {
    const { stdout } = await command(['status', '--json']);
    const { targets } = JSON.parse(stdout) as { targets: ShownTarget[] };
    return Object.fromEntries(targets.map((target) => [target.target, target]));
  };
  /** The settings of both as variables, for a program of its own. */
  const variables = variablesOf(service.settingsFor(directory));
  /** The path of a target's published tree. */
  const tree = (target: string): string => join(directory, 'mirror', target);
  /** The text of a file of the directory. */
  const text = (path: string): Promise<string> => readFile(join(directory, path), 'utf8');
  const run = (...args: string[]) => command(args);
  return { service, directory, variables, tree, text, run, command, status };
}

/** Starts a service with repositories of these files, by their names, and mirrors it. */
export async function startSynced(
  repositories: Readonly<Record<string, Readonly<Record<string, string>>>>,
  knobs: Partial<FakeKnobs> = {},
): Promise<MirrorCommands> {
  const commands = await startCommands(knobs);
  for (const [name, files] of Object.entries(repositories)) commands.service.addRepository(name, files);
  expect(await commands.run('sync')).toMatchObject({ exitCode: 0 });
  return commands;
}
