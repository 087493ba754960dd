import { type ArchiveFacts, compareTimes, examineArchive, innerPaths } from './archive.ts';
import type { ShortRequest } from './asker.ts';
import type { ProbeAnswer } from './connection.ts';
import { pathIn, type Subject } from './subject.ts';
import { table } from './table.ts';
import { archiveOrShape, isArchive, mediaType, shapeOf, yesNo } from './words.ts';

/** Where no repository can be looked into. @param maxDownload the limit, in words */
export const NO_SUBJECT = table<{ readonly maxDownload: string }>('Archives', {
  'archives.subject': {
    question: 'could an archive be looked into?',
    read: ({ maxDownload }) =>
      `nothing to look into: no repository with files could be downloaded within ${maxDownload}`,
    meaning: 'the questions about archives and files were left out',
  },
});

/** Compression methods by their numbers. */
const METHODS: ReadonlyMap<number, string> = new Map([
  [0, 'stored'],
  [8, 'deflated'],
  [9, 'deflate64'],
  [12, 'bzip2'],
  [14, 'LZMA'],
  [93, 'zstd'],
]);

const READABLE_METHODS: ReadonlySet<number> = new Set([0, 8]);

/** Answers and what they mean. */
const LEADING_FOLDER = {
  none: ['no', 'the names are taken as they are'],
  wrapped: ['yes', 'the mirror takes it off'],
  unknown: ['cannot be told from the listing', 'the mirror will ask for single paths to find out'],
} as const;

/** Where the subject's archive cannot be read. */
export const UNREADABLE = table<Subject>('Archives', {
  'archives.readable': {
    question: 'can the archive be read?',
    read: () => 'no',
    meaning: 'the mirror will download it again and again: archive.damaged',
  },
  'archives.folder': {
    question: 'how are names in the archive of a folder?',
    read: () => 'no folder was found',
    meaning: 'the mirror asks for whole branches',
  },
});

type ReadSubject = Subject & { readonly facts: ArchiveFacts };

/** Questions about the subject's archive. */
export const ARCHIVES = table<ReadSubject>('Archives', {
  'archives.leading_folder': {
    question: 'is there a folder around everything?',
    read: ({ facts }) => LEADING_FOLDER[facts.leadingFolder][0],
    meaning: ({ facts }) => LEADING_FOLDER[facts.leadingFolder][1],
  },
  'archives.folder_entries': {
    question: 'are there entries for folders?',
    read: ({ facts }) => yesNo(facts.folderEntries > 0),
    meaning: 'the mirror makes folders as files need them',
  },
  'archives.methods': {
    question: 'compression methods',
    read: ({ facts }) => methodsOf(facts),
    meaning: ({ facts }) =>
      facts.methods.every(([method]) => READABLE_METHODS.has(method))
        ? 'the mirror reads these'
        : 'the mirror refuses the archive: archive.refused',
  },
  'archives.descriptors': {
    question: 'are sizes behind the content (data descriptors)?',
    read: ({ facts }) => yesNo(facts.dataDescriptors > 0),
    meaning: 'the mirror checks them against the directory',
  },
  'archives.zip64': {
    question: 'is it zip64?',
    read: ({ facts }) => yesNo(facts.isZip64),
    meaning: 'the mirror reads both',
  },
  'archives.names': {
    question: 'are names marked as UTF-8?',
    read: ({ facts }) => yesNo(facts.utf8Names > 0),
    meaning: 'names that are UTF-8 are taken as such, marked or not',
  },
  'archives.comment': {
    question: 'has it a comment?',
    read: ({ facts }) => yesNo(facts.hasComment),
    meaning: 'the mirror does not use it',
  },
  'archives.times': {
    question: "are the files' times those of their versions?",
    read: (subject) => compareTimes(subject.facts.files, versionTimes(subject)),
    meaning: "the mirror sets a workbook's time from the list, any other's from the archive",
  },
  'archives.same_bytes': {
    question: 'is it the same bytes when asked for again?',
    ask: (subject) => [{ target: subject.target, maxBytes: subject.maxBytes }],
    read: ({ archive, answer }) => yesNo(archive.body.equals(answer.body)),
    meaning: 'the mirror compares the files, not the archives',
  },
  'archives.length': {
    question: 'is its length announced?',
    read: ({ archive }) => lengthAnswer(archive),
    meaning: (_, answer) =>
      answer.startsWith('yes')
        ? 'an answer that breaks off is known by its length'
        : 'an archive that breaks off is known by its end record and its CRCs',
  },
  'archives.media_type': {
    question: 'media type',
    read: ({ archive }) => mediaType(archive.headers['content-type']),
    meaning: 'the mirror goes by the first bytes',
  },
  'archives.etag': {
    question: 'is there an ETag?',
    read: ({ archive }) => tagAnswer(archive),
    meaning: ({ archive }) =>
      isStrong(archive) ? 'the mirror remembers it' : 'the mirror remembers strong ones only',
  },
  'archives.conditional': {
    question: 'is If-None-Match honoured?',
    ask: (subject) => unlessTagged(subject.target, subject.archive),
    read: ({ answers }) => conditionAnswer(answers),
    meaning: ({ archive, answer }) =>
      answer.status === 304 && isStrong(archive)
        ? 'full checks will be conditional requests: cheap for both sides'
        : 'each full check downloads the whole archive',
  },
  'archives.folder': {
    question: 'how are names in the archive of a folder?',
    ask: (subject) =>
      folderOf(subject).map((folder) => ({ target: pathIn(subject, folder), maxBytes: subject.maxBytes })),
    read: async (subject) => {
      const [folder] = folderOf(subject);
      if (folder === undefined) return 'no folder was found';
      return isArchive(subject.answer) ? folderNames(folder, subject.answer) : shapeOf(subject.answer);
    },
    meaning: 'the mirror asks for whole branches',
  },
  'archives.folder_slash': {
    question: 'is a folder answered with a slash at its end?',
    ask: (subject) => folderOf(subject).map((folder) => ({ target: pathIn(subject, `${folder}/`) })),
    read: ({ answers }) => answers.map(archiveOrShape)[0] ?? null,
    meaning: 'the mirror sends none',
  },
});

function methodsOf({ methods }: ArchiveFacts): string {
  return (
    methods.map(([method, count]) => `${METHODS.get(method) ?? `method ${method}`} ${count}`).join(', ') ||
    'no files'
  );
}

/** The times of the subject's workbooks by their names in the archive. */
function versionTimes({ workbooks, branch, facts: { prefix } }: ReadSubject): Map<string, number> {
  return new Map(
    workbooks.flatMap((each) =>
      each.branch === branch && each.createdAt !== null
        ? [[prefix + each.path, Date.parse(each.createdAt)]]
        : [],
    ),
  );
}

/** The first folder of the archive; none where it has none. */
function folderOf({ facts }: ReadSubject): string[] {
  const path = innerPaths(facts).find((each) => each.includes('/'));
  return path === undefined ? [] : path.split('/').slice(0, 1);
}

/** In which form the names of a folder's archive stand. */
async function folderNames(folder: string, { body }: ProbeAnswer): Promise<string> {
  const facts = await examineArchive(body, []);
  if (facts === null) return 'no archive';
  const names = [...facts.files.keys()];
  if (names.length === 0) return 'no files';
  return names.every((name) => name.startsWith(`${folder}/`))
    ? 'from the root of the repository'
    : 'relative to the folder';
}

/** Whether an answer says how long it is. */
export function lengthAnswer({ headers }: ProbeAnswer): string {
  if (headers['content-length'] !== undefined) return 'yes: Content-Length';
  return headers['transfer-encoding'] === undefined ? 'no' : 'no: in chunks';
}

/** Whether an answer has an entity tag. */
export function tagAnswer({ headers }: ProbeAnswer): string {
  const { etag } = headers;
  if (etag === undefined) return 'no';
  if (/^"[^"]*"$/.test(etag)) return 'yes: strong';
  return /^W\/"[^"]*"$/.test(etag) ? 'yes: weak' : 'yes: malformed';
}

function isStrong({ headers }: ProbeAnswer): boolean {
  return headers['etag']?.startsWith('"') === true;
}

/** Asks for something again unless it has the entity tag that it had; nothing where it had none. */
export function unlessTagged(target: string, { headers: { etag } }: ProbeAnswer): ShortRequest[] {
  return etag === undefined ? [] : [{ target, headers: { 'if-none-match': etag } }];
}

/** How a service took a condition. */
export function conditionAnswer([answer]: readonly ProbeAnswer[]): string {
  if (answer === undefined) return 'no ETag to ask with';
  return answer.status === 304 ? 'yes: 304' : `no: status ${answer.status}`;
}
