import { isQuick, testFaults } from './fault-tests.ts';

testFaults((fault) => !isQuick(fault));
