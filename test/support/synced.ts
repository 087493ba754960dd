import { join } from 'node:path';

import { onTestFinished } from 'vitest';

import { type FakeKnobs, FakeService } from './fake-service.ts';
import { runHere, type Written } from './in-process.ts';
import { temporaryFolder } from './temporary.ts';

/** The fake service, a directory to mirror it into, and commands on that. */
export interface Synced {
  readonly service: FakeService;
  readonly directory: string;
  /** Where the published tree of a target is. */
  readonly tree: (target: string) => string;
  readonly run: (...args: readonly string[]) => Promise<Written>;
}

/** Starts the fake service for commands of this process; both end with the running test. */
export async function startSynced(knobs: Partial<FakeKnobs> = {}): Promise<Synced> {
  const service = await FakeService.start(knobs);
  onTestFinished(() => service.close());
  const directory = join(await temporaryFolder(), 'mirrored');
  const settings = {
    ...service.settingsFor(directory),
    HTTP_LISTEN: 'off',
  };
  return {
    service,
    directory,
    tree: (target) => join(directory, 'mirror', target),
    run: (...args) => runHere(args, settings),
  };
}
