import { createHash } from 'node:crypto';

import { Keyv } from 'keyv';

import type { Shard, ShareReport } from '../plan/shard.ts';
import type { Backend } from './adapter.ts';
import { shareReportSchema } from './schemas.ts';

/** The place in a remote store where the instances that mirror one service, each its share, tell of themselves. */
export interface Shares {
  readonly save: (report: ShareReport) => Promise<void>;
  /** The reports of all; those that cannot be understood count as none. */
  readonly read: () => Promise<readonly ShareReport[]>;
}

const NOBODY: Shares = {
  save: () => Promise.resolve(),
  read: () => Promise.resolve([]),
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
  const told = new Keyv({ store: backend.store(`shares-${digest}`) });
  return {
    read: async () => {
      const reports: ShareReport[] = [];
      const entries: AsyncIterable<readonly unknown[]> = told.iterator();
      for await (const [, value] of entries) {
        const parsed = shareReportSchema.safeParse(value);
        if (parsed.success) reports.push(parsed.data);
      }
      return reports;
    },
    save: async (report) => {
      await told.set(`${report.directoryId} ${report.index}`, report);
    },
  };
}
