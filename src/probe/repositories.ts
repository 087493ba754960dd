import { z } from 'zod';

import { repositorySchema } from '../lib/api/schemas.ts';
import { statementsOf } from './statement.ts';
import { LIST_BYTES } from './subject.ts';
import { allHold, given, holds } from './verdict.ts';
import { faultIn, jsonOf, shapeOf } from './words.ts';

const text = z.string('is not a string').min(1, 'is empty');

/** A repository of section 2.1. */
const REPOSITORY = z
  .looseObject(
    {
      id: z.guid('is not a UUID'),
      name: text,
      full_name: text,
      created_at: z.iso
        .datetime({ precision: 6, offset: true, error: 'is not a time with microseconds' })
        .endsWith('+00:00', 'has another offset than +00:00'),
      url: z
        .string('is neither a string nor null')
        .regex(/^https:\/\/[^/\s@]+\/\S+\.git$/, 'has another form than https://<host>/<path>.git')
        .nullable(),
    },
    'is not an object',
  )
  .refine((row) => row.full_name === (row.url === null ? row.name : row.url.slice('https://'.length)), {
    path: ['full_name'],
    error: 'is neither url without its scheme nor, without url, name',
  })
  .refine(({ url, name }) => url === null || url.slice(url.lastIndexOf('/') + 1) === `${name}.git`, {
    path: ['name'],
    error: 'is not the last segment of url without .git',
  });

/** Statements about the list of repositories. */
export const REPOSITORY_STATEMENTS = statementsOf(
  { group: 'Repositories', section: '2.1', kind: 'required' },
  {
    'repositories.list': {
      section: '4.1',
      says: 'GET /repos answers 200 with an array in JSON',
      check: async (subject) => {
        const rows = await subject.repositoryRows();
        const repositories = await subject.repositories();
        const external = repositories.filter(({ url }) => url !== null).length;
        // A repeated row is not malformed: the mirror counts it once.
        const malformed = rows.filter((row) => !repositorySchema.safeParse(row).success).length;
        const name = subject.usesOtherName ? ', as /repositories: there is no /repos' : '';
        return `${rows.length} (${external} of Git addresses, ${repositories.length - external} drag-and-drop, ${malformed} malformed)${name}`;
      },
      meaning: (answer, outcome) => {
        if (outcome === 'differs') return 'the mirror cannot work with this: check the base address';
        if (answer.endsWith('/repos')) return 'the mirror detects that, and requests /repositories';
        return answer.includes(' 0 malformed')
          ? null
          : 'while a row is malformed the mirror believes no absence, and retires nothing';
      },
    },
    'repositories.fields': {
      says: 'a repository has a UUID as id, a url or null, names that follow from it, and created_at with microseconds and +00:00',
      check: async (subject) => allHold(await subject.repositoryRows(), (row) => faultIn(REPOSITORY, row)),
      meaning: 'the mirror needs only id, name and full_name, for the names of its folders',
    },
    'repositories.unique': {
      says: 'no two repositories have one id or one full_name',
      check: async (subject) => {
        const all = await subject.repositoryRows();
        const rows = all.flatMap((row) => repositorySchema.safeParse(row).data ?? []);
        for (const field of ['id', 'full_name'] as const)
          holds(new Set(rows.map((row) => row[field])).size === rows.length, `${field} occurs twice`);
        return 'all';
      },
    },
    'repositories.alias': {
      section: '4.1',
      kind: 'optional',
      says: 'where /repositories is answered, it is answered as /repos',
      check: async (subject) => {
        const answer = await subject.ask({ target: '/repositories', maxBytes: LIST_BYTES });
        given(answer.status === 200, shapeOf(answer));
        const same = JSON.stringify(jsonOf(answer)) === JSON.stringify(await subject.repositoryRows());
        holds(same, `something else: ${shapeOf(answer)}`);
        return 'the same list';
      },
    },
  },
);
