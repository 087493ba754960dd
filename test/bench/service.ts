import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';

import { type BenchRepository, type DataSetSpec, repositoriesOf } from './data-set.ts';
import type { Fault } from './faults.ts';

/** What may be changed of a service while it runs. */
export interface Knobs {
  /** Whether rows tell size and digest of a version's file, as older installations do. */
  readonly hasFileFacts: boolean;
  /** Whether it honours If-None-Match. */
  readonly isConditional: boolean;
  readonly fault: Fault | null;
}

/** What is asked of the process; `id` is given back with the answer. */
export type Command = { readonly id: number } & Order;

type Order =
  | { readonly kind: 'open'; readonly folder: string; readonly spec: DataSetSpec }
  | { readonly kind: 'change'; readonly at: number; readonly paths: readonly string[] }
  | { readonly kind: 'set'; readonly knobs: Partial<Knobs> }
  | { readonly kind: 'count' };

/** What a service has sent since it began, headers included. */
export interface Traffic {
  readonly requests: number;
  readonly sentBytes: number;
}

/** What the process answers. */
export interface Told {
  readonly id: number;
  readonly value: number | Traffic | null;
}

/** A service on a data set, in a process of its own. */
export interface BenchService {
  readonly baseUrl: string;
  /** What it holds: its branches, in the order that `change` counts. */
  readonly repositories: readonly BenchRepository[];
  /** Where its archives lie, in the same order. */
  readonly archives: readonly string[];
  /** Makes a new version of files. @returns how many bytes they hold */
  readonly change: (at: number, paths: readonly string[]) => Promise<number>;
  readonly set: (knobs: Partial<Knobs>) => Promise<void>;
  readonly traffic: () => Promise<Traffic>;
  readonly close: () => void;
}

/** Starts a service on a data set, whose archives are made in the folder first. */
export async function startService(folder: string, spec: DataSetSpec): Promise<BenchService> {
  const child = fork(join(import.meta.dirname, 'service-main.ts'), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const ask = asker(child);
  await ask.started;
  const port = await ask.order({ kind: 'open', folder, spec });
  const repositories = repositoriesOf(spec);
  return {
    baseUrl: `http://127.0.0.1:${Number(port)}/api`,
    repositories,
    archives: repositories.map((_, index) => join(folder, `${index}.zip`)),
    change: async (at, paths) => {
      for (const file of repositories[at]?.files ?? []) if (paths.includes(file.path)) file.version += 1;
      return Number(await ask.order({ kind: 'change', at, paths }));
    },
    set: async (knobs) => {
      await ask.order({ kind: 'set', knobs });
    },
    traffic: async () => (await ask.order({ kind: 'count' })) as Traffic,
    close: () => {
      if (child.connected) child.disconnect();
    },
  };
}

function asker(child: ChildProcess): {
  started: Promise<unknown>;
  order: (order: Order) => Promise<Told['value']>;
} {
  const waiting = new Map<number, (value: Told['value']) => void>();
  let lastId = 0;
  const answered = (id: number): Promise<Told['value']> =>
    new Promise((resolve, reject) => {
      waiting.set(id, resolve);
      child.once('exit', () => reject(new Error('the service of the benchmark ended by itself')));
    });
  child.on('message', ({ id, value }: Told) => {
    waiting.get(id)?.(value);
    waiting.delete(id);
  });
  child.setMaxListeners(0);
  return {
    started: answered(0),
    order: (order) => {
      lastId += 1;
      const answer = answered(lastId);
      child.send({ id: lastId, ...order });
      return answer;
    },
  };
}
