import type { Settings } from '../config/schema.ts';
import { MirrorError } from '../model/errors.ts';

/** Where the embedded service keeps what it serves. @throws MirrorError `settings.invalid` when no setting says so */
export function requiredServeDirectory({ directory }: Settings['serve']): string {
  if (directory !== undefined) return directory;
  throw new MirrorError(
    'settings.invalid',
    'serve.directory: is required: where the service keeps its repositories.',
    {
      hint: 'Give --serve-directory DIR, the variable WORKBOOK_MIRROR_SERVE_DIRECTORY, or the key in the settings file.',
    },
  );
}
