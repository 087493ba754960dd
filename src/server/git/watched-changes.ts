import type { Changes } from '../http/library.ts';

/**
 * Tells of every upload and push once it has ended.
 * @param onChange is given the id of the repository; neither throws nor keeps the client waiting
 */
export function watchedChanges(changes: Changes, onChange: (repositoryId: string) => void): Changes {
  return {
    ...changes,
    async commit(repositoryId, upload) {
      const commitId = await changes.commit(repositoryId, upload);
      onChange(repositoryId);
      return commitId;
    },
    async *converse(...conversation) {
      const [repositoryId, program] = conversation;
      try {
        yield* changes.converse(...conversation);
      } finally {
        if (program === 'git-receive-pack') onChange(repositoryId);
      }
    },
  };
}
