#!/usr/bin/env bash
# Takes one piece of order or bookkeeping out of the gates at a time, in a copy of the sources, and expects a
# named test to go red.
#
#   tests/full/gate-mutations.sh [--only NAME] [FOLDER]      default build/mutants/gates; some minutes
#
# A mutation is a perl substitution over one whole file; one that no longer matches anything is an error.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
only=""
if [[ ${1:-} == --only ]]; then
  only=$2
  shift 2
fi
place=${1:-build/mutants/gates}
wrong=0
matched=0

mkdir -p "$place"
rm -rf "$place/source"
mkdir "$place/source"
git ls-files -z | xargs -0 cp --parents -t "$place/source"

# build_and_run PROGRAM FILTER LOG
build_and_run() {
  local program=$1 filter=$2 log=$3
  cmake --build "$place/tree" --target "$program" >>"$log" 2>&1 || return 99
  timeout 300 "$place/tree/bin/$program" --gtest_filter="$filter" >>"$log" 2>&1
}

# mutate NAME FILE SUBSTITUTION PROGRAM FILTER
mutate() {
  local name=$1 file=$2 substitution=$3 program=$4 filter=$5 status=0
  local log=$place/$name.log
  [[ -z $only || $only == "$name" ]] || return 0
  matched=1
  : >"$log"
  perl -0pi -e "$substitution" "$place/source/$file"
  if cmp -s "$file" "$place/source/$file"; then
    echo "WRONG: $name changes nothing in $file"
    wrong=1
    return 0
  fi
  build_and_run "$program" "$filter" "$log" || status=$?
  cp "$file" "$place/source/$file"
  if [[ $status == 99 ]]; then
    echo "WRONG: $name does not compile, see $log"
    wrong=1
  elif [[ $status == 0 ]]; then
    echo "WRONG: $filter stays green with $name, see $log"
    wrong=1
  else
    echo "ok: $filter goes red with $name"
  fi
}

cmake -S "$place/source" -B "$place/tree" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo >"$place/configure.log" 2>&1
if build_and_run gate_cuda_test '*' "$place/none.log"; then
  echo "ok: green as it is"
else
  echo "WRONG: red as it is, see $place/none.log"
  exit 1
fi

order=plugin/core/gate_order.cc
mutate no-join "$order" 's/if \(u\.marked && u\.stream != s\)/if (false)/' \
  gate_cuda_test 'CudaStreams.AReductionElsewhereIsPartOfTheStep'
mutate no-wait-for-the-begin "$order" 's/if \(device_\.wait\(s, begun_\) != Code::kOk\) return nullptr;//' \
  gate_cuda_test 'CudaStreams.ALocalNanElsewhereIsNamed'
mutate no-order-between-calls "$order" 's/if \(last_ == nullptr \|\| \(phase_ != Phase::kIdle && s == last_stream_\)\) return true;/return true;/' \
  gate_cuda_test 'CudaStreams.AStepMayMoveFromStreamToStream'
mutate streams-forget-what-was-declared "$order" 's/if \(\*seen == pokes_ \|\| capturing_\) return true;/return true;/' \
  gate_cuda_test 'CudaStreams.WhatIsDeclaredWithinAStepComesFirst'
mutate any-thread-flushes plugin/core/pending_calls.cc 's/ && c\.issuer == me//g' \
  gate_cuda_test 'CudaNonBlocking.TheJobsOwnQuestionFlushes'
mutate a-lost-word-is-no-veto "$order" 's/if \(pending_\.forget\(comm\) != 0\) drop_veto_ = true;/pending_.forget(comm);/' \
  gate_cuda_test 'CudaNonBlocking.ACommunicatorThatGoesVetoesWhatItHadPending'
mutate asking-waits-for-a-launch "$order" 's/if \(!pending_\.mine\(comm\)\) return;//' \
  gate_test 'GatePending.WhoHasNothingThereWaitsForNobody'
mutate half-captured-steps "$order" 's/if \(state == CaptureState::kFailed \|\| \(state == CaptureState::kCapturing\) == capturing_\) return true;/if (state != CaptureState::kUnknown) return true;/' \
  gate_cuda_test 'CudaGraphs.AStepIsCapturedWholeOrNotAtAll'
mutate retired-ones-are-polled plugin/core/nccl_calls.cc 's/if \(std::find\(retired_[^;]*return ncclInternalError;//s' \
  gate_cuda_test 'CudaNonBlocking.ARetiredCommunicatorIsNotPolled'
mutate graphs-outlive-their-ranges collectives/core/gate_block_impl.h 's/g\.veto != 0 \|\| g\.slots > slot_count/g.veto/' \
  gate_cuda_test 'CudaGraphs.ARangeDeclaredAfterTheCaptureVetoesItsReplays'
hooks=plugin/core/gate_hooks.cc
mutate scan-ahead-of-the-launch "$hooks" 's/if \(w == Window::kStep && outcome == Outcome::kPending\) \{\s+hold_locked\(op\);\s+\} else if \(w == Window::kClosed \|\| outcome != Outcome::kLaunched\)/if (w == Window::kClosed || outcome == Outcome::kDropped)/' \
  gate_cuda_test 'CudaNonBlocking.IsReadOnceItIsLaunched'
mutate first-seen-in-a-capture "$hooks" 's/if \(capturing\) return false;/if (capturing \&\& comm == nullptr) return false;/' \
  gate_cuda_test 'CudaGraphs.ACommunicatorFirstSeenDuringACapturePassesThrough'
mutate a-call-after-the-replay plugin/core/gate_scan.cc 's/  r\.touched = true;\n//' \
  gate_cuda_test 'CudaGraphs.AStepWithoutAReplayIsReadAtItsEnd'
scan=plugin/core/gate_scan.cc
mutate no-stamp "$scan" 's/job\.epoch = .*?reduced_step;//s' \
  gate_cuda_test 'CudaGraphs.ABackwardAloneIsCoveredByItsReplays'
mutate read-twice "$scan" 's/unless_stamped = by_graph/unless_stamped = false/' \
  gate_cuda_test 'CudaGraphs.TheEndDoesNotReadTwice'
mutate a-graph-covers-for-ever "$scan" 's/r\.declared \|\| !r\.spec\.result/r.declared || r.graph || !r.spec.result/' \
  gate_cuda_test 'CudaGraphs.AStepWithoutAReplayIsReadAtItsEnd'
mutate one-launch-per-range "$scan" 's/device_\.scan_all\(s, scans_\)/device_.Device::scan_all(s, scans_)/' \
  gate_cuda_test 'CudaGateAccount.MissingRangesAreOnePass'
mutate slots-of-graphs-come-back plugin/core/range_table.cc 's/ \|\| ranges_\[i\]\.graph//' \
  gate_cuda_test 'CudaGraphs.ARetiredRangesGraphSpoilsNoOther'
mutate retired-slots-count plugin/core/gate_ranges.cc 's/r\.declared \? r\.spec\.set : kMaxSets/r.spec.set/' \
  gate_cuda_test 'CudaGraphs.ARetiredRangesGraphSpoilsNoOther'
mutate steps-of-calls-alone plugin/core/gate_outcome.cc 's/captured_ \? std::max\(step_, mirror_\.get\(\)->step\) : step_/step_/' \
  gate_cuda_test 'CudaGraphs.AWholeStepIsANewStepAtEveryReplay'
mutate a-recording-begins-a-step plugin/core/gate_step.cc 's/if \(!capturing_\) \+\+step_;/++step_;/' \
  gate_cuda_test 'CudaGraphs.AWholeStepIsANewStepAtEveryReplay'
mutate the-end-waits plugin/core/gate_step.cc 's/if \(device_\.immediate\(\)\) harvest_locked\(\);/device_.synchronize(s);/' \
  gate_cuda_test 'CudaGateAccount.LaunchesAndCallsOfAStep'
mutate destroyed-in-flight plugin/core/gate.cc 's/if \(!device_\.immediate\(\) && control_ != nullptr && control_locked\(\)\) device_\.synchronize\(control_\);//' \
  gate_cuda_test 'CudaGateMemory.WaitsForItsWorkBeforeItFreesAnything'
mutate a-failed-wait-counts-for-nothing "$order" 's/failed_ = true;  \/\/ its reductions are part/(void)0;  \/\/ its reductions are part/' \
  gate_cuda_test 'CudaGateFaults.AStreamThatCannotBeOrderedReleases'
mutate a-failed-join-counts-for-nothing plugin/core/gate_step.cc 's/if \(!join_streams_locked\(s\)\) failed_ = true;/join_streams_locked(s);/' \
  gate_cuda_test 'CudaGateFaults.AStreamThatCannotBeOrderedReleases'
shim=plugin/shim/forward.cc
mutate scan-before-the-group-ends "$shim" 's/group\.depth == 0 \|\| outcome == Outcome::kDropped/true/' \
  shim_hooks_test '*Group*'
mutate a-group-is-read-at-its-calls "$shim" 's/if \(group\.depth == 0 \|\| group\.overflown\) core->before/core->before/' \
  shim_hooks_test 'Hooks.WhatAGroupSendsIsReadAtItsEnd:Hooks.ASimulatedGroupDecidesNothing'
mutate observed-beside-an-agreement plugin/core/process_observe.cc 's/left_ && !enforced/left_/' \
  gate_test 'ProcessShared.ObservesWhoeverHasNoAgreementWhileNoGateHasOne'
mutate a-failed-activation-is-told-nobody plugin/core/api.cc 's/said && !g\.enforcing\(\)/status == STEPGATE_REFUSED/' \
  gate_test 'ProcessShared.AnActivationThatFailedObserves'
mutate both-gates-get-the-memory plugin/core/claims.cc 's/if \(!overlap\(/if (!overlap(claim.memory, {}) || !overlap(/' \
  gate_test 'ProcessShared.OfTwoThreadsThatDeclareOneMemoryOneIsRefused'
mutate an-exit-waits-for-hooks plugin/core/process.cc 's/std::unique_lock lock\(gates_mutex_, std::try_to_lock\)/std::unique_lock lock(gates_mutex_)/' \
  gate_test 'ProcessShared.AnExitDoesNotWaitForAHookThatIsStuckInALaunch'
mutate the-publisher-waits-for-launches plugin/core/observe/observations.cc 's/lock\(mutex_, std::try_to_lock\)/lock(mutex_)/' \
  gate_test 'GateObservations.TheReaderDoesNotWaitForALaunch'
mutate a-retired-link-is-called plugin/core/nccl_calls.cc 's/link\.comm != nullptr && !polls\.retired\(link\.comm\)/link.comm != nullptr/' \
  plugin_unit_test 'SumOverChain.OneThatIsRetiredInTheMiddleIsNotCalledAndTheNextOneIsStillServed'
mutate one-device-of-a-list plugin/core/devices.cc 's/\|\| ordinal < 0\)/|| ordinal >= -1)/' \
  gate_cuda_test 'Devices.EachOfTheListIsObserved'
mutate what-is-sent-elsewhere-is-not-joined "$hooks" 's/  if \(w == Window::kStep\) mark_stream_locked\(op\.stream\);\n  scan_seconds_ \+= seconds_since\(start\);\n\}\n\nvoid Gate::attribute\(/}\n\nvoid Gate::attribute(/' \
  gate_cuda_test 'CudaStreams.AReduceIsReadOnItsRoot'
mutate two-scans-of-a-range-race "$hooks" 's/  if \(w == Window::kStep\) after_last_scan_locked\(r, s\);\n//' \
  gate_cuda_test 'CudaGateAccount.ASecondScanOfARangeWaitsForTheFirstOnAnotherStream'
mutate unscaled-twice plugin/core/gate_scan.cc 's/unscaling_ && !r\.unscaled/unscaling_/' \
  gate_test 'InHook.ASecondReductionInTheStepIsSkippedByAll'
mutate a-second-reduction-is-no-veto plugin/core/gate_scan.cc 's/if \(!r\.unscaled\) return;/return;/' \
  gate_test 'InHook.ASecondReductionInTheStepIsSkippedByAll'
mutate a-graph-unscales "$hooks" 's/if \(w == Window::kGraph && options_.*?continue;//s' \
  gate_cuda_test 'CudaInHook.ABackwardThatRunsTwiceIsUnscaledOnce'
mutate unscales-after-a-release collectives/core/gate_block_impl.h 's/g\.released \? 1 : g\.latched_scale/g.latched_scale/' \
  gate_test 'InHook.NothingIsMultipliedOnceTheReleaseIsKnown'
mutate part-of-a-mesh-decides collectives/core/gate_block_impl.h 's/return g\.in_turns == 0;/return true;/' \
  gate_test 'GateGroupFailures.*'
mutate a-lost-group-tells-nobody plugin/core/gate_step.cc 's/if \(!groups_\.chain\(\)\.whole\(\)\) failed_ = true;//' \
  gate_test 'GateGroupFailures.ACommunicatorThatGoesReleasesAll'
mutate any-groups-make-a-world plugin/core/groups.cc 's/product == world && chain_\.count != 0/chain_.count != 0/' \
  gate_test 'GateGroups.ThatDoNotMakeTheWorldAreSaid'
mutate stuck-for-ever plugin/core/gate_state.cc 's/exchange_stuck_ = false;//' \
  gate_test 'GateResetWorld.AStuckExchangeOfTheOldWorldHoldsNothingUp'
mutate old-groups-stay plugin/core/gate_state.cc 's/groups_\.clear\(\);//' \
  gate_test 'GateResetWorld.*'
mutate a-late-sum-lands-in-the-next-agreement plugin/core/gate_state.cc 's/summary_in_doubt_ \|\| phase_ == Phase::kEnding/false/' \
  gate_test 'GateReset.AStepInItsExchangeIsNoneOfTheNewAgreement'
mutate unguarded-waits-for-an-exchange collectives/core/gate_block_impl.h 's/g\.unguarded \? unguarded_step\(g\.latched_scale\) : undecided/undecided/' \
  gate_test 'GateReleased.UnguardedNeedsNoExchange'
mutate unguarded-within-a-step collectives/core/gate_block_impl.h 's/if \(g\.unguarded\) \{/if (g.released \&\& g.policy.released == ReleasedPolicy::kUnguarded) {/' \
  gate_test 'GateReleased.*'

if [[ -n $only && $matched == 0 ]]; then
  echo "WRONG: no mutation is called $only"
  exit 1
fi
exit "$wrong"
