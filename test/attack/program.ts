import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { NodeProgram } from '../support/launcher.ts';
import { API_KEY, API_TOKEN } from '../support/fake-service.ts';
import { variablesOf } from '../support/program.ts';

/** The place of an attacked mirror: a folder with nothing else except the needs of the program. */
export interface Place {
  /** The folder of all that follows. */
  readonly root: string;
  /** The setting `directory`. */
  readonly directory: string;
  /** TMPDIR of the program, which must stay empty. */
  readonly scratch: string;
}

/** Node's compile cache (node:module), as there are thousands of runs. */
const COMPILE_CACHE = join(import.meta.dirname, '../../node_modules/.cache/workbook-mirror-attack-code');

/** A longer run counts as hung: many times the slowest run on a busy machine. */
const TIMEOUT_MS = 90_000;

/** Puts a state into an empty place. */
export type Restore = (place: Place) => void | Promise<void>;

/** Makes a place in a folder, in place of all that is there. */
export async function placeWith(
  root: string,
  restore: (place: Place) => void | Promise<void>,
): Promise<Place> {
  const place = { root, directory: join(root, 'mirrored'), scratch: join(root, 'scratch') };
  await rm(root, { recursive: true, force: true });
  await mkdir(place.scratch, { recursive: true });
  await restore(place);
  return place;
}

/** `sync` in a place, on a service. @param main the compiled program @param settings further ones, as variables without the prefix */
export function syncIn(
  main: string,
  place: Place,
  baseUrl: string,
  settings: Readonly<Record<string, string>>,
): NodeProgram {
  const all = {
    SERVICE_BASE_URL: baseUrl,
    SERVICE_API_KEY: API_KEY,
    SERVICE_API_TOKEN: API_TOKEN,
    DIRECTORY: place.directory,
    CONCURRENCY: '1',
    ...settings,
  };
  return {
    args: [main, 'sync'],
    env: {
      PATH: process.env['PATH'],
      HOME: place.scratch,
      TMPDIR: place.scratch,
      NO_COLOR: '1',
      NODE_COMPILE_CACHE: COMPILE_CACHE,
      ...variablesOf(all),
    },
    timeoutMs: TIMEOUT_MS,
  };
}
