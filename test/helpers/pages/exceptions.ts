/** Commands that tests can neither run nor check, with the reason. */
export const exceptions: readonly { readonly command: RegExp; readonly reason: string }[] = [
  { command: /^(?:kubectl|istioctl)\b/, reason: 'needs a cluster' },
  { command: /^systemctl\b/, reason: 'changes the machine of the reader' },
  { command: /^helm upgrade eg CHART/, reason: 'needs the chart of Envoy Gateway' },
  { command: /^helm diff\b/, reason: 'a plugin of helm' },
  { command: /^redis-cli\b/, reason: 'needs the Redis of the reader' },
  { command: /^curl .*GATEWAY/, reason: 'needs the gateway of the reader' },
  { command: /^git (?:am|clone|worktree)\b/, reason: 'needs the network, or changes the checkout' },
  { command: /^cd \S+$/, reason: 'enters a checkout that the command before it makes' },
  { command: /^npm (?:publish|audit)\b/, reason: 'needs the registry and a published version' },
  { command: /^(?:cargo\b|git checkout f2fb157|go build -o service)/, reason: 'builds another project' },
];

/** Blocks that are only checked, since running them needs more than the service. */
export const notRun: readonly { readonly page: string; readonly part: string; readonly reason: string }[] = [
  {
    page: 'docs/overlay.md',
    part: 'CONFIG_TYPE=GRPC_XDS_SOTW',
    reason: 'needs a control plane; test/parts/xds has one',
  },
  { page: 'docs/runbooks.md', part: 'npx weir ', reason: 'needs trouble; test/e2e/bad-day.test.ts makes it' },
];

export const leavesOut = (page: string, block: string): boolean =>
  notRun.some((one) => one.page === page && block.includes(one.part));
