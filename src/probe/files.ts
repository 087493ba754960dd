import { crc32 } from 'node:zlib';

import type { ArchiveFacts } from './archive.ts';
import { conditionAnswer, lengthAnswer, tagAnswer, unlessTagged } from './archives.ts';
import type { Subject, SubjectFile } from './subject.ts';
import { table } from './table.ts';
import { archiveOrShape, mediaType, shapeOf, yesNo } from './words.ts';

/** Questions about requests for an archive in other ways. */
export const REQUESTS = table<Subject>('Files and requests', {
  'requests.slash': {
    question: 'is …/contents/ answered?',
    ask: (subject) => [{ target: subject.target.replace('/contents', '/contents/') }],
    read: ({ answer }) => archiveOrShape(answer),
    meaning: 'the mirror sends no slash at the end',
  },
  'requests.head': {
    question: 'is HEAD of an archive answered?',
    ask: ({ target }) => [{ target, method: 'HEAD' }],
    read: ({ answer }) => {
      if (answer.status !== 200) return `status ${answer.status}`;
      const hasLength = !['0', undefined].includes(answer.headers['content-length']);
      return hasLength ? 'yes, with a length' : 'yes, without a length';
    },
    meaning: 'the mirror asks with GET only',
  },
  'requests.disposition': {
    question: 'is a file name suggested for an archive?',
    read: ({ archive }) => yesNo(archive.headers['content-disposition'] !== undefined),
    meaning: 'the mirror does not use it',
  },
});

/** Where no file was found. */
export const NO_FILE = table<object>('Files and requests', {
  'files.content': {
    question: 'is a file what the archive has?',
    read: () => 'no file was found',
    meaning: 'the mirror downloads archives',
  },
});

/** Questions about a single file. */
export const FILES = table<Subject & { readonly file: SubjectFile }>('Files and requests', {
  'files.content': {
    question: 'is a file what the archive has?',
    read: ({ file, facts }) =>
      file.answer.status === 200 ? yesNo(isSameFile(file, facts)) : shapeOf(file.answer),
    meaning: 'the mirror downloads archives, not single files',
  },
  'files.media_type': {
    question: 'media type of a workbook',
    read: ({ file }) => mediaType(file.answer.headers['content-type']),
    meaning: 'the mirror does not use it',
  },
  'files.length': {
    question: 'is the length of a file announced?',
    read: ({ file }) => lengthAnswer(file.answer),
    meaning: 'the mirror does not use it',
  },
  'files.etag': {
    question: 'is there an ETag?',
    read: ({ file }) => tagAnswer(file.answer),
    meaning: 'the mirror downloads archives, not single files',
  },
  'files.conditional': {
    question: 'is If-None-Match honoured?',
    ask: ({ file }) => unlessTagged(file.target, file.answer),
    read: ({ answers }) => conditionAnswer(answers),
    meaning: 'the mirror downloads archives, not single files',
  },
  'files.head': {
    question: 'is HEAD of a file answered?',
    ask: ({ file: { target } }) => [{ target, method: 'HEAD' }],
    read: ({ answer }) => `status ${answer.status}`,
    meaning: 'the mirror asks with GET only',
  },
  'files.range': {
    question: 'is a range of a file given?',
    ask: ({ file: { target }, maxBytes }) => [{ target, maxBytes, headers: { range: 'bytes=1-3' } }],
    read: ({ file, answer: { status, body } }) => {
      if (status === 206)
        return body.equals(file.answer.body.subarray(1, 4)) ? 'yes: 206' : '206, but another part';
      return status === 200 ? 'no: the whole file' : `no: status ${status}`;
    },
    meaning: 'the mirror asks for whole archives',
  },
  'files.coding': {
    question: 'is a file compressed on the way when that is allowed?',
    ask: ({ file: { target }, maxBytes }) => [
      { target, maxBytes, headers: { 'accept-encoding': 'gzip, br' } },
    ],
    read: ({ answer }) => {
      const coding = answer.headers['content-encoding'];
      if (coding === undefined) return 'no';
      return `yes: ${/^[a-z]{2,10}$/.test(coding) ? coding : 'another coding'}`;
    },
    meaning: 'the mirror undoes gzip, deflate, br and zstd, and asks for none',
  },
});

function isSameFile({ path, answer: { body } }: SubjectFile, facts: ArchiveFacts | null): boolean {
  const files = [...(facts?.files ?? [])];
  const entry = files.find(([name]) => name === path || name.endsWith(`/${path}`))?.[1];
  return entry?.sizeBytes === body.length && entry.crc32 === crc32(body);
}
