import { type ArchiveFacts, compareTimes, type TimesVerdict } from './archive.ts';
import { lengthAnswer, tagFindings } from './answer-findings.ts';
import { type ContentsSeen, digestOf, type FolderSeen } from './contents.ts';
import type { Finding } from './table.ts';
import { type Find, findingsOf } from './finding.ts';
import { isArchive } from './subjects.ts';
import { mediaType, shapeOf, yesNo } from './words.ts';

const METHODS: ReadonlyMap<number, string> = new Map([
  [0, 'stored'],
  [8, 'deflated'],
  [9, 'deflate64'],
  [12, 'bzip2'],
  [14, 'LZMA'],
  [93, 'zstd'],
]);

const READABLE_METHODS: ReadonlySet<number> = new Set([0, 8]);

function timesAnswer(verdict: TimesVerdict): string {
  switch (verdict.kind) {
    case 'nothing to compare':
      return 'nothing to compare';
    case 'equal':
      return 'yes';
    case 'shifted':
      return `no: all shifted by ${verdict.minutes} minutes`;
    case 'all the same':
      return 'no: all files have one time';
    case 'differ':
      return `${verdict.equal} of ${verdict.of}`;
  }
}

function versionTimes({ subject, facts }: ContentsSeen): Map<string, number> {
  const first = [...(facts?.files.keys() ?? [])][0] ?? '';
  const prefix = facts?.leadingFolder === 'wrapped' ? first.slice(0, first.indexOf('/') + 1) : '';
  return new Map(
    subject.workbooks
      .filter(({ branch, createdAt }) => branch === subject.branch && createdAt !== null)
      .map(({ path, createdAt }) => [prefix + path, Date.parse(createdAt ?? '')]),
  );
}

/** What is known of the subject's archive. */
export function readArchive(seen: ContentsSeen): Finding[] {
  const find = findingsOf('Archives');
  const { facts } = seen;
  if (facts === null) {
    return [
      find(
        'archives.readable',
        'can the archive be read?',
        'no',
        'the mirror will download it again and again: archive.damaged',
      ),
    ];
  }
  const methods = [...facts.methods].map(
    ([method, count]) => `${METHODS.get(method) ?? `method ${method}`} ${count}`,
  );
  const isReadable = [...facts.methods.keys()].every((method) => READABLE_METHODS.has(method));
  return [
    find(
      'archives.leading_folder',
      'is there a folder around everything?',
      { none: 'no', wrapped: 'yes', unknown: 'cannot be told from the listing' }[facts.leadingFolder],
      leadingMeaning(facts.leadingFolder),
    ),
    find(
      'archives.folder_entries',
      'are there entries for folders?',
      yesNo(facts.folderEntries > 0),
      'the mirror makes folders as files need them',
    ),
    find(
      'archives.methods',
      'compression methods',
      methods.join(', ') || 'no files',
      isReadable ? 'the mirror reads these' : 'the mirror refuses the archive: archive.refused',
    ),
    find(
      'archives.descriptors',
      'are sizes behind the content (data descriptors)?',
      yesNo(facts.dataDescriptors > 0),
      'the mirror checks them against the directory',
    ),
    find('archives.zip64', 'is it zip64?', yesNo(facts.isZip64), 'the mirror reads both'),
    find(
      'archives.names',
      'are names marked as UTF-8?',
      yesNo(facts.utf8Names > 0),
      'names that are UTF-8 are taken as such, marked or not',
    ),
    ...readDelivery(find, seen, facts),
  ];
}

function readDelivery(find: Find, seen: ContentsSeen, facts: ArchiveFacts): Finding[] {
  const { archive } = seen.subject;
  return [
    find('archives.comment', 'has it a comment?', yesNo(facts.hasComment), 'the mirror does not use it'),
    find(
      'archives.times',
      "are the files' times those of their versions?",
      timesAnswer(compareTimes(facts.files, versionTimes(seen))),
      "the mirror sets a workbook's time from the list, any other's from the archive",
    ),
    find(
      'archives.same_bytes',
      'is it the same bytes when asked for again?',
      yesNo(digestOf(archive) === digestOf(seen.again)),
      'the mirror compares the files, not the archives',
    ),
    find(
      'archives.length',
      'is its length announced?',
      lengthAnswer(archive),
      archive.headers['content-length'] === undefined
        ? 'an archive that breaks off is known by its end record and its CRCs'
        : 'an answer that breaks off is known by its length',
    ),
    find(
      'archives.media_type',
      'media type',
      mediaType(archive.headers['content-type']),
      'the mirror goes by the first bytes',
    ),
    ...tagFindings(find, 'archives', archive, seen.conditional),
  ];
}

function leadingMeaning(kind: ArchiveFacts['leadingFolder']): string {
  switch (kind) {
    case 'none':
      return 'the names are taken as they are';
    case 'wrapped':
      return 'the mirror takes it off';
    case 'unknown':
      return 'the mirror will ask for single paths to find out';
  }
}

/** In which form the names of a folder's archive stand. */
function folderNames({ path, facts }: FolderSeen): string {
  if (facts === null) return 'no archive';
  const names = [...facts.files.keys()];
  if (names.length === 0) return 'no files';
  return names.every((name) => name.startsWith(`${path}/`))
    ? 'from the root of the repository'
    : 'relative to the folder';
}

/** What the answers for a folder mean. */
export function readFolder({ folder }: ContentsSeen): Finding[] {
  const find = findingsOf('Archives');
  if (folder === null)
    return [
      find(
        'archives.folder',
        'how are names in the archive of a folder?',
        'no folder was found',
        'the mirror asks for whole branches',
      ),
    ];
  return [
    find(
      'archives.folder',
      'how are names in the archive of a folder?',
      isArchive(folder.answer) ? folderNames(folder) : shapeOf(folder.answer),
      'the mirror asks for whole branches',
    ),
    find(
      'archives.folder_slash',
      'is a folder answered with a slash at its end?',
      isArchive(folder.slash) ? 'yes' : shapeOf(folder.slash),
      'the mirror sends none',
    ),
  ];
}
