import { createHash } from 'node:crypto';

import { Keyv } from 'keyv';

import type { Shard } from '../plan/shard.ts';
import type { ShareReport } from '../plan/whole.ts';
import { CLOCK_STEP_MS, latestUntil } from '../../lib/time/wrong-clock.ts';
import { targetKey } from '../upstream/listing.ts';
import type { Backend } from './adapter.ts';
import { storedRecordSchema, shareReportSchema } from './schemas.ts';

/** The place in a remote store where the instances that mirror one service, each its share, tell of themselves. */
export interface Shares {
  readonly save: (report: ShareReport) => Promise<void>;
  /** The reports of all; those that cannot be understood count as none. */
  readonly read: () => Promise<readonly ShareReport[]>;
  /**
   * The targets, by `targetKey`, that an instance has published and verified, each with when that instance last told of itself, in
   * milliseconds since the epoch.
   * @param here the id of this instance's directory: what was done in that is no other copy
   */
  readonly verifiedBy: (owner: Shard, here: string) => Promise<ReadonlyMap<string, number>>;
}

const NOBODY: Shares = {
  save: () => Promise.resolve(),
  read: () => Promise.resolve([]),
  verifiedBy: () => Promise.resolve(new Map()),
};

/** The namespace of an instance's records, for who shares a directory with others. */
export function stateIdOf(directoryId: string, shard: Pick<Shard, 'index'> | undefined): string {
  return shard === undefined ? directoryId : `${directoryId}-shard-${shard.index}`;
}

/** Opens that place. @param options.sharedService the address of the service; null where no instances tell each other of it */
export function createShares(
  backend: Backend,
  { address, sharedService }: { readonly address: string; readonly sharedService: string | null },
): Shares {
  if (address === 'sqlite' || sharedService === null) return NOBODY;
  const digest = createHash('sha256').update(sharedService).digest('hex').slice(0, 16);
  const open = (name: string): Keyv => new Keyv({ store: backend.adapter(name), namespace: name });
  const told = open(`shares-${digest}`);
  const read = async (): Promise<readonly ShareReport[]> => {
    const reports: ShareReport[] = [];
    for (const value of await valuesOf(told)) {
      const parsed = shareReportSchema.safeParse(value);
      if (parsed.success) reports.push(parsed.data);
    }
    return reports;
  };
  return {
    read,
    save: async (report) => {
      await told.set(`${report.directoryId} ${report.index}`, report);
    },
    verifiedBy: async (owner, here) => {
      const verified = new Map<string, number>();
      const latestMs = Date.now() + CLOCK_STEP_MS;
      for (const { index, count, directoryId, writtenAtMs } of await read()) {
        if (index !== owner.index || count !== owner.count || directoryId === here) continue;
        for (const value of await valuesOf(open(`${stateIdOf(directoryId, owner)}-targets`))) {
          const { data } = storedRecordSchema.safeParse(value);
          const isThere = data !== undefined && data.tree !== null && data.verifiedAtMs !== null;
          if (!isThere) continue;
          const key = targetKey(data.target);
          verified.set(key, latestUntil(latestMs, [writtenAtMs, verified.get(key) ?? 0]));
        }
      }
      return verified;
    },
  };
}

async function valuesOf(store: Keyv): Promise<unknown[]> {
  const values: unknown[] = [];
  const entries: AsyncIterable<readonly unknown[]> = store.iterator();
  for await (const [, value] of entries) values.push(value);
  return values;
}
