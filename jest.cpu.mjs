import base from './jest.config.js';
export default { ...base, projects: base.projects.map((p) => ({ ...p, testEnvironment: '/work/h/cpu-environment.cjs', rootDir: process.cwd() })) };
