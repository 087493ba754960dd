import { choice, deletionLimit, integer, retention, size } from './kinds.ts';
import { section, setting } from './metadata.ts';

/** The settings of what the mirror refuses, holds back and keeps. */

export const retireSection = section('What happens to what is gone from the service.', {
  afterPasses: setting(integer(1, 100).prefault(2), {
    description:
      'complete listings in a row that must lack a repository or branch before its tree is retired to history',
  }),
});

export const guardSection = section(
  "How much may be deleted without a person's word: a share, a number, or off. More is held until `approve`.",
  {
    targets: setting(deletionLimit().prefault('20%'), {
      description:
        'most targets that may be retired in one pass, as a share of the mirrored ones or as a number',
    }),
    files: setting(deletionLimit().prefault('50%'), {
      description:
        'most files of a target that one publish may delete, as a share or as a number; a target of up to 5 files is not guarded',
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
        'how many states, or for how long, are kept that a newer one replaced: the files that changed or went, and the manifest',
      needsRestart: true,
    }),
  },
);

export const archiveSection = section(
  'What an archive may hold. One that goes beyond is refused; what is published stays.',
  {
    maxSize: setting(size({ min: '1kB' }).prefault('64 GiB'), {
      description: 'greatest archive that is downloaded',
    }),
    maxUnpackedSize: setting(size({ min: '1kB' }).prefault('256 GiB'), {
      description: 'most bytes of all files of an archive together',
    }),
    maxEntries: setting(integer(1, 100_000_000).prefault(1_000_000), {
      description: 'most entries of an archive',
    }),
    nameTwins: setting(choice(['refuse', 'accept']).prefault('refuse'), {
      description:
        'names in one folder that differ only in case or Unicode form, which shares and other systems take for one name: `refuse` the archive, or `accept` them where the file system of the mirror tells them apart',
    }),
  },
);
