import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** Begins the name of the folder that holds the objects of a push until they are found good (git-receive-pack(1)). */
const QUARANTINE_PREFIX = 'tmp_objdir-incoming-';

/** Keeps account of the pushes under way, so that nothing is left of those that were ended. */
export interface Quarantines {
  /** To be called before a push into a bare repository begins. */
  readonly enter: (gitDirectory: string) => Promise<void>;
  /**
   * To be called once for each `enter`, when the push has ended.
   * @param isClean whether git ended by itself: then it has cleared away
   */
  readonly leave: (gitDirectory: string, isClean: boolean) => Promise<void>;
}

interface Account {
  underWay: number;
  isClean: boolean;
  clearing: Promise<void> | null;
}

/** Makes the account of a service, which is the only one that pushes into its repositories. */
export function createQuarantines(): Quarantines {
  const accounts = new Map<string, Account>();
  return {
    async enter(gitDirectory) {
      let account = accounts.get(gitDirectory);
      while (account?.clearing) {
        await account.clearing;
        account = accounts.get(gitDirectory);
      }
      account ??= { underWay: 0, isClean: true, clearing: null };
      account.underWay += 1;
      accounts.set(gitDirectory, account);
    },
    async leave(gitDirectory, isClean) {
      const account = accounts.get(gitDirectory);
      if (account === undefined) return;
      account.underWay -= 1;
      account.isClean &&= isClean;
      // What belongs to which push cannot be told.
      if (account.underWay > 0) return;
      if (!account.isClean) {
        account.clearing = removeQuarantines(gitDirectory);
        await account.clearing;
      }
      accounts.delete(gitDirectory);
    },
  };
}

/** Removes every quarantine of a bare repository, as far as that is possible. */
async function removeQuarantines(gitDirectory: string): Promise<void> {
  const objects = join(gitDirectory, 'objects');
  const names = (await readdir(objects).catch(() => [])).filter((name) => name.startsWith(QUARANTINE_PREFIX));
  await Promise.all(
    names.map((name) =>
      // A program that git has started may take a moment longer to end, and write until then.
      rm(join(objects, name), { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }).catch(
        () => undefined,
      ),
    ),
  );
}
