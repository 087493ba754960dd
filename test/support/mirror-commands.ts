import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { type FakeKnobs, FakeService } from './fake-service.ts';
import { runHere, type Written } from './in-process.ts';
import { onTestFinished } from 'vitest';
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
export interface MirrorCommands {
  readonly service: FakeService;
  readonly directory: string;
  /** The settings of both as variables, for a program of its own. */
  readonly variables: Variables;
  /** The path of a target's published tree. */
  readonly tree: (target: string) => string;
  /** The text of a file of the directory. */
  readonly text: (path: string) => Promise<string>;
  readonly run: (...args: readonly string[]) => Promise<Written>;
  /** Runs a command. @param settings variables without the prefix, beside the usual ones: `DIRECTORY` */
  readonly command: (args: readonly string[], settings?: Variables) => Promise<Written>;
  /** The targets of `status`, by their paths. */
  readonly status: () => Promise<Record<string, ShownTarget>>;
}

/** Starts a service for commands; it ends with the test. */
export async function startCommands(knobs: Partial<FakeKnobs> = {}): Promise<MirrorCommands> {
  const service = await FakeService.start(knobs);
  onTestFinished(() => service.close().catch(() => {}));
  const directory = join(await temporaryFolder(), 'mirrored');
  const command: MirrorCommands['command'] = (args, settings = {}) =>
    runHere(args, {
      ...service.settingsFor(directory),
      READER_GRACE: '0s',
      HTTP_LISTEN: 'off',
      ...settings,
    });
  const status = async (): Promise<Record<string, ShownTarget>> => {
    const { stdout } = await command(['status', '--json']);
    const { targets } = JSON.parse(stdout) as { targets: ShownTarget[] };
    return Object.fromEntries(targets.map((target) => [target.target, target]));
  };
  const variables = variablesOf(service.settingsFor(directory));
  const tree = (target: string): string => join(directory, 'mirror', target);
  const text = (path: string): Promise<string> => readFile(join(directory, path), 'utf8');
  return { service, directory, variables, tree, text, run: (...args) => command(args), command, status };
}
