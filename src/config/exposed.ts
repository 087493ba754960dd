import { realpathSync, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

import { filesOfSettings } from './changes.ts';
import type { Settings } from './schema.ts';

/** Permissions of those who are neither owner nor group: to read a file, to enter a folder. */
const OTHERS_READ = 0o004;
const OTHERS_ENTER = 0o001;

/** File systems in memory (statfs(2)): tmpfs and ramfs. */
const IN_MEMORY: ReadonlySet<number> = new Set([0x0102_1994, 0x8584_58f6]);

/**
 * Finds the files of secrets that every user of the machine can read. What a service manager or a container platform hands over
 * lies in memory, with modes that are its own business (systemd.exec(5), "Credentials"; Kubernetes, volumes of secrets).
 * @param others files that hold a secret beside those which settings name, such as a settings file with one in it
 */
export function exposedSecretFiles(settings: Settings, others: readonly string[] = []): string[] {
  return [...others, ...filesOfSettings(settings)].filter((path) => {
    try {
      return isExposed(realpathSync(path));
    } catch {
      return false;
    }
  });
}

function isExposed(path: string): boolean {
  const stat = statSync(path);
  if (!stat.isFile() || (stat.mode & OTHERS_READ) === 0) return false;
  return isOpenToOthers(dirname(path)) && !IN_MEMORY.has(statfsSync(path).type);
}

/** Whether everybody may enter a folder and all above it. */
function isOpenToOthers(folder: string): boolean {
  if ((statSync(folder).mode & OTHERS_ENTER) === 0) return false;
  return folder === '/' || isOpenToOthers(dirname(folder));
}
