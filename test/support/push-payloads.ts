/** What the systems that host Git repositories send after a push, cut down to the fields that say something here. */

/** GitHub, event `push` of a repository. */
export const GITHUB_PUSH = {
  ref: 'refs/heads/main',
  before: '6113728f27ae82c7b1a177c8d03f9e96e0adf246',
  after: '0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c',
  repository: {
    id: 186853002,
    name: 'plan',
    full_name: 'Org/plan',
    private: true,
    owner: { name: 'Org', login: 'Org' },
    html_url: 'https://github.com/Org/plan',
    url: 'https://github.com/Org/plan',
    git_url: 'git://github.com/Org/plan.git',
    ssh_url: 'git@github.com:Org/plan.git',
    clone_url: 'https://github.com/Org/plan.git',
    svn_url: 'https://github.com/Org/plan',
    homepage: null,
    default_branch: 'main',
  },
  pusher: { name: 'anna', email: 'anna@example.com' },
  created: false,
  deleted: false,
  forced: false,
  commits: [],
  head_commit: null,
};

/** GitHub, event `ping`, which it sends when a webhook is made. */
export const GITHUB_PING = {
  zen: 'Design for failure.',
  hook_id: 1,
  hook: { type: 'Repository', id: 1, active: true, events: ['push'] },
  repository: GITHUB_PUSH.repository,
};

/** GitHub, event `create` of a branch. */
export const GITHUB_CREATE = {
  ref: 'feature/x',
  ref_type: 'branch',
  master_branch: 'main',
  repository: { ...GITHUB_PUSH.repository, url: 'https://api.github.com/repos/Org/plan' },
};

/** GitLab, `Push Hook`. */
export const GITLAB_PUSH = {
  object_kind: 'push',
  event_name: 'push',
  before: '95790bf891e76fee5e1747ab589903a6a1f80f22',
  after: 'da1560886d4f094c3e6c9ef40349f7d38b5d27d7',
  ref: 'refs/heads/main',
  user_username: 'anna',
  project_id: 15,
  project: {
    id: 15,
    name: 'Plan',
    web_url: 'https://gitlab.example.com:8443/group/sub/plan',
    git_ssh_url: 'git@gitlab.example.com:group/sub/plan.git',
    git_http_url: 'https://gitlab.example.com:8443/group/sub/plan.git',
    path_with_namespace: 'group/sub/plan',
    homepage: 'https://gitlab.example.com:8443/group/sub/plan',
    url: 'git@gitlab.example.com:group/sub/plan.git',
    ssh_url: 'git@gitlab.example.com:group/sub/plan.git',
    http_url: 'https://gitlab.example.com:8443/group/sub/plan.git',
  },
  repository: {
    name: 'Plan',
    url: 'git@gitlab.example.com:group/sub/plan.git',
    description: '',
    homepage: 'https://gitlab.example.com:8443/group/sub/plan',
    git_http_url: 'https://gitlab.example.com:8443/group/sub/plan.git',
    git_ssh_url: 'git@gitlab.example.com:group/sub/plan.git',
    visibility_level: 0,
  },
  commits: [],
  total_commits_count: 0,
};

/** GitLab, `System Hook` of a whole installation, which has no `repository`. */
export const GITLAB_SYSTEM = {
  event_name: 'repository_update',
  user_id: 1,
  project_id: 15,
  project: GITLAB_PUSH.project,
  changes: [],
  refs: ['refs/heads/main'],
};

/** Gitea and Forgejo, event `push`. */
export const GITEA_PUSH = {
  ref: 'refs/heads/main',
  before: '28e1879d029cb852e4844d9c718537df08844e03',
  after: 'bffeb74224043ba2feb48d137756c8a9331c449a',
  compare_url: 'http://git.example.com:3000/org/plan/compare/28e1879d...bffeb742',
  commits: [],
  repository: {
    id: 140,
    owner: { id: 1, login: 'org' },
    name: 'plan',
    full_name: 'org/plan',
    private: false,
    html_url: 'http://git.example.com:3000/org/plan',
    ssh_url: 'ssh://git@git.example.com:2222/org/plan.git',
    clone_url: 'http://git.example.com:3000/org/plan.git',
    default_branch: 'main',
  },
  pusher: { login: 'anna' },
  sender: { login: 'anna' },
};

/** The headers with which Gitea names an event. */
export function giteaEvent(event: string): Record<string, string> {
  return {
    'x-gitea-event': event,
    'x-gitea-event-type': event,
    'x-gogs-event': event,
    'x-gogs-event-type': event,
    'x-github-event': event,
    'x-github-event-type': event,
  };
}
