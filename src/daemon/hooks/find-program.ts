import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';

import { MirrorError } from '../../lib/errors/errors.ts';

/**
 * Where a program is, absolute. Folders of the search path that are not absolute are passed over: commands run in folders of the
 * mirror, where those would lead to what the service sent.
 * @param program a path, or a name to look for
 * @param searchPath as the variable PATH has it
 * @throws MirrorError `hook.failed`
 */
export async function findProgram(program: string, searchPath: string): Promise<string> {
  const places = program.includes('/')
    ? [program]
    : searchPath.split(delimiter).map((folder) => join(folder, program));
  for (const place of places) {
    if (isAbsolute(place) && (await isProgram(place))) return place;
  }
  throw new MirrorError('hook.failed', `${JSON.stringify(program)} is no program that can be run.`, {
    hint: program.includes('/')
      ? 'Check that the file is there, and that the user of this process may execute it.'
      : `It is looked for in ${searchPath}; give its whole path if it is elsewhere.`,
  });
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
