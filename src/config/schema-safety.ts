import { choice, deletionLimit, integer, retention, size } from './kinds.ts';
import { section, setting } from './metadata.ts';

/** The settings of what the mirror refuses, holds back and keeps. */

export const guardSection = section(
  "How much may be deleted without a person's word: a share, a number, or off. More is held until `approve`.",
  {
    targets: setting(deletionLimit().prefault('20%'), {
      description: 'most targets that one pass may retire: a share of the mirrored ones, or a number',
    }),
    files: setting(deletionLimit().prefault('50%'), {
      description:
        'most files of a target that one publish may delete: a share or a number; targets of up to 5 files are not guarded',
    }),
  },
);

export const historySection = section(
  'What is kept in history/: a number of the latest for each target, an age, forever, or off.',
  {
    retired: setting(retention().prefault('30d'), {
      description: 'how long trees are kept that are gone from the service',
      needsRestart: true,
    }),
    replaced: setting(retention().prefault('7d'), {
      description:
        'how long, or how many, replaced states are kept: changed and deleted files, and the manifest',
      needsRestart: true,
    }),
  },
);

export const archiveSection = section(
  'What an archive may hold. One that goes beyond is refused; what is published stays.',
  {
    maxSize: setting(size({ min: '1kB' }).prefault('64 GiB'), {
      description: 'largest archive to download',
    }),
    maxUnpackedSize: setting(size({ min: '1kB' }).prefault('256 GiB'), {
      description: 'largest total size of the files of an archive',
    }),
    maxEntries: setting(integer(1, 100_000_000).prefault(1_000_000), {
      description: 'most entries of an archive',
    }),
    nameTwins: setting(choice(['refuse', 'accept']).prefault('refuse'), {
      description:
        'names in one folder that differ only in case or Unicode form: `refuse` the archive, or `accept` them if the file system of the mirror distinguishes them',
    }),
  },
);
