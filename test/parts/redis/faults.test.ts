import { isQuick, testFaults } from './fault-tests.ts';

testFaults(isQuick);
