import type { Changes, Library, Standing, WorkbookRow } from '../service/library.ts';
import { contentAt } from './contents.ts';
import { createConversations } from './conversations.ts';
import { createGit } from './git.ts';
import { createWorkbookListing } from './listing.ts';
import { createRegistrar } from './registrar.ts';
import type { Registry } from './registry.ts';
import { createUploads } from './uploads.ts';

/** The repositories of a registry, as the service reads and changes them. */
export interface GitLibrary extends Library {
  readonly changes: Changes;
  /** Ends every git program under way. */
  readonly close: () => Promise<void>;
}

const DONE: Standing = { status: 'success', processing: 0, failure: 0 };

/**
 * Makes the library of a registry, which stays the caller's to close.
 * @param standingOf what has been made of a workbook so far; left out, everything is well
 */
export function createGitLibrary(
  registry: Registry,
  standingOf: (row: WorkbookRow) => Standing = () => DONE,
): GitLibrary {
  const git = createGit();
  const listing = createWorkbookListing(git, registry);
  return {
    repositories: () => Promise.resolve(registry.list()),
    content: ({ id }, branch, path) => contentAt(git, registry.gitDirectory(id), branch, path),
    workbooks: async () => ({ rows: await listing.rows(), standingOf }),
    changes: {
      ...createRegistrar(registry),
      ...createUploads(git, registry),
      ...createConversations(git, registry),
    },
    close: () => git.stop(),
  };
}
