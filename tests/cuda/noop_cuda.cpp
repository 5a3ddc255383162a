// What a CPU build of torch lacks to move fake tensors to "cuda": a device guard and hooks.
// Every operation does nothing; no CUDA header or library is needed.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

constexpr auto kType = c10::DeviceType::CUDA;
const c10::Device kOnlyDevice(kType, 0);
const c10::Stream kOnlyStream(c10::Stream::DEFAULT, kOnlyDevice);

struct NoopGuard final : c10::impl::NoOpDeviceGuardImpl<kType> {
  c10::Device exchangeDevice(c10::Device) const override { return kOnlyDevice; }
  c10::Device getDevice() const override { return kOnlyDevice; }
  c10::Stream getStream(c10::Device) const noexcept override { return kOnlyStream; }
  c10::Stream getNewStream(c10::Device, int) const override { return kOnlyStream; }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return kOnlyStream; }
  void record(void** event, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    *event = reinterpret_cast<void*>(1);
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
};
C10_REGISTER_GUARD_IMPL(CUDA, NoopGuard)

}  // namespace

namespace at {

// The registry looks this class up by its name when torch first asks for CUDA.
struct CUDAHooks : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex current_device() const override { return 0; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  int getNumGPUs() const override { return 1; }
};
REGISTER_CUDA_HOOKS(CUDAHooks)

}  // namespace at
